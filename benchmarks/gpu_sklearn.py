"""scikit-learn on a part of the sets of `gpu` that it can hold, beside ours on the GPU and on all cores of the processor.

    python -m benchmarks.gpu_sklearn [--only NAME ...] [--rows N] [--quick] [--limit SECONDS] [--json FILE]

All minimise the same objective, without an intercept. scikit-learn is run with finer and finer settings until its objective is
within the target of the one that ours was certified at; its seconds are those of the first that is, without the tries before.
Where none is within the limit, ">" the seconds of the last try. Top-k losses scikit-learn does not have.
"""

import argparse
import json
import multiprocessing
import os
import platform
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

import maxmargin as mm

from .gpu import timed, torch
from .gpu_sets import SHAPES, Made, made

TARGET = 1e-3
TOLS = (1e-1, 1e-2, 1e-3, 1e-4)
EPOCHS = (5, 20, 80)
MOST = 100_000  # iterations, where a tolerance is to end them


class Peer(NamedTuple):
    """What is fitted, by C, rows and a setting; the settings; and whether the loss is the logistic one."""

    name: str
    make: Callable[[float, int, Any], Any]
    settings: tuple[Any, ...]
    logistic: bool = False


def linear_svc(C: float, n: int, tol: float) -> Any:
    return LinearSVC(loss="hinge", C=C, tol=tol, fit_intercept=False, max_iter=MOST)


def crammer_singer(C: float, n: int, tol: float) -> Any:
    return LinearSVC(multi_class="crammer_singer", C=C, tol=tol, fit_intercept=False, max_iter=MOST)


def of_each_label(C: float, n: int, tol: float) -> Any:
    return OneVsRestClassifier(linear_svc(C, n, tol), n_jobs=-1)


def descent(C: float, n: int, epochs: int) -> Any:
    return SGDClassifier(alpha=1.0 / (C * n), fit_intercept=False, max_iter=epochs, tol=None, average=True, random_state=0)


def logistic(C: float, n: int, tol: float) -> Any:
    return LogisticRegression(C=C, tol=tol, fit_intercept=False, max_iter=MOST)


PEERS = {
    "classes": (Peer("LinearSVC", crammer_singer, TOLS),),
    "labels": (Peer("LinearSVC", of_each_label, TOLS),),
    "binary": (
        Peer("LinearSVC", linear_svc, TOLS),
        Peer("SGDClassifier", descent, EPOCHS),
        Peer("LogisticRegression", logistic, TOLS, True),
    ),
}


def fit_alone(folder: str, peer: Peer, C: float, setting: Any) -> None:
    """In a process of its own, which may be ended: the seconds of a fit and its weights, as a file."""
    warnings.simplefilter("ignore")
    X, y = (np.load(Path(folder) / f"{name}.npy") for name in "Xy")
    model = peer.make(C, len(X), setting)
    begin = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - begin
    W = np.stack([each.coef_[0] for each in model.estimators_]) if hasattr(model, "estimators_") else model.coef_
    np.savez(Path(folder) / "found.npz", seconds=seconds, W=W)


def tries(part: Made, peer: Peer, limit: float) -> Iterator[tuple[float, torch.Tensor | None]]:
    """Seconds and weights of each setting; no weights where the limit was reached, which is the last."""
    spawned = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", part.X.cpu().numpy())
        np.save(Path(folder) / "y.npy", part.y.cpu().numpy())
        for setting in peer.settings:
            process = spawned.Process(target=fit_alone, args=(folder, peer, part.C, setting))
            process.start()
            process.join(limit)
            if process.is_alive():
                process.kill()
                process.join()
                yield limit, None
                return
            with np.load(Path(folder) / "found.npz") as found:
                yield float(found["seconds"]), torch.as_tensor(found["W"], dtype=torch.float32, device=part.X.device)


def objective(part: Made, W: torch.Tensor, is_logistic: bool) -> float:
    if not is_logistic:
        return part.objective(W)
    slopes = torch.where(part.y > 0, 1.0, -1.0) * (part.X @ W.T)[:, 0]
    return 0.5 * float(W.double().square().sum()) + part.C * float(torch.nn.functional.softplus(-slopes).double().sum())


def ours(part: Made, is_logistic: bool) -> tuple[float, float, float]:
    """Seconds on the GPU and on the processor, and the objective that was certified."""
    X, y = part.X.cpu().numpy(), part.y.cpu().numpy()

    def model(**options: Any) -> Any:
        if is_logistic:
            return mm.SVMClassifier(C=part.C, loss="log_loss", tol=TARGET, fit_intercept=False, random_state=0, **options)
        return part.model(TARGET, **options)

    seconds = []
    for options, given in (({}, (part.X, part.y)), ({"n_jobs": -1}, (X, y))):
        model(max_iter=2, **options).fit(*given)  # compiles
        found, fitted = timed(lambda options=options, given=given: model(**options).fit(*given))
        seconds.append(found)
        assert fitted.certificate_.converged
    return seconds[0], seconds[1], fitted.certificate_.primal


def of_part(part: Made, limit: float) -> list[dict[str, Any]]:
    found = []
    for peer in PEERS[part.shape.kind]:
        gpu, cores, primal = ours(part, peer.logistic)
        each: dict[str, Any] = {
            "set": part.name,
            "rows": len(part.X),
            "who": peer.name,
            "gpu": gpu,
            "cores": cores,
            "reached": False,
        }
        for seconds, W in tries(part, peer, limit):
            each["seconds"] = seconds
            if W is not None:
                each["above"] = objective(part, W, peer.logistic) / primal - 1.0
                each["reached"] = each["above"] <= TARGET
            if each["reached"]:
                break
        print({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in each.items()}, flush=True)
        found.append(each)
    return found


def table(found: list[dict[str, Any]]) -> str:
    lines = ["| set | rows | scikit-learn | s | above ours | ours, GPU, s | ours, cores, s |", "|---|---:|---|" + "---:|" * 4]
    for each in found:
        above = f"{each['above']:.1e}" if "above" in each else "-"
        seconds = f"{'' if each['reached'] else '> '}{each['seconds']:.2f}"
        ours_s = f"{each['gpu']:.2f} | {each['cores']:.2f}"
        lines.append(f"| {each['set']} | {each['rows']} | {each['who']} | {seconds} | {above} | {ours_s} |")
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [name for name, shape in SHAPES.items() if shape.kind in PEERS]
    top.add_argument("--only", nargs="*", default=known, choices=known)
    top.add_argument("--rows", type=int, default=10_000, help="of a set with many scores; a hundred times as many of others")
    top.add_argument("--quick", action="store_true", help="seconds on 500 rows, to see that all works")
    top.add_argument("--limit", type=float, default=30.0, help="seconds of one fit of scikit-learn")
    top.add_argument("--json")
    given = top.parse_args()
    if given.quick:
        given.rows, given.limit = 500, 1.0
    return given


def main() -> None:
    given, found = arguments(), []
    warnings.simplefilter("ignore")
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks.gpu_sklearn needs a GPU, and torch finds none here.")
    head = f"{date.today()}, {torch.cuda.get_device_name()}, {os.cpu_count()} cores, scikit-learn {sklearn.__version__}"
    print(f"{head}, torch {torch.__version__}, Python {platform.python_version()}", flush=True)
    for name in given.only:
        shape = SHAPES[name]
        rows = min(given.rows if shape.scores > 1 else 100 * given.rows, shape.rows)
        found += of_part(made(name, rows / shape.rows), given.limit)
        torch.cuda.empty_cache()
    print(table(found))
    if given.json:
        Path(given.json).write_text(json.dumps({"head": head, "found": found}, indent=1))


if __name__ == "__main__":
    main()
