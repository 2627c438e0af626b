"""A certified linear head on a GPU: sets as large as ImageNet, beside mini-batch Adam and SGD in plain PyTorch.

    python -m benchmarks.gpu [--rows N --features D --classes K] [--only NAME ...] [--json FILE]

Rows are made on the device: a class mean N(0, 0.12^2) plus unit noise, scaled to length one; "shifted" adds a vector that all
rows have in common, as features of a network do. Seconds of a fit are those of `fit`, certificates included, with the data on the
device and kernels compiled; the first call is timed by itself. Evaluations of Adam and SGD are off their clocks. The floor is two
matrix products of a pass at tf32, and the duals read and written once.
"""

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple

import torch

import maxmargin as mm

LAM = 1e-5
NOISE, COMMON = 0.12, 0.5
PART = 65_536  # rows that are made, or evaluated, at a time
TARGETS = (1e-2, 1e-3)
BATCH = 4096
RATES = {"adam": (3e-4, 1e-3, 3e-3), "sgd": (10.0, 30.0, 100.0)}
PASSES = (6, 12, 24)  # of Adam and SGD, each time from zero: their rate falls to nothing at the end


class Made(NamedTuple):
    name: str
    X: torch.Tensor
    y: torch.Tensor
    classes: int


def features(name: str, n: int, d: int, classes: int, shift: float) -> Made:
    make = torch.Generator(device="cuda").manual_seed(0)
    means = NOISE * torch.randn(classes, d, device="cuda", generator=make)
    common = shift * torch.randn(d, device="cuda", generator=make)
    y = torch.randint(0, classes, (n,), device="cuda", generator=make)
    X = torch.empty(n, d, device="cuda")
    for rows in torch.arange(n, device="cuda").split(PART):
        part = means[y[rows]] + torch.randn(len(rows), d, device="cuda", generator=make) + common
        X[rows] = part / part.norm(dim=1, keepdim=True)
    return Made(name, X, y, classes)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    torch.cuda.synchronize()
    begin = time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    return time.perf_counter() - begin, found


def model(made: Made, tol: float, **options: Any) -> mm.SVMClassifier:
    return mm.SVMClassifier(C=1.0 / (LAM * len(made.X)), tol=tol, random_state=0, fit_intercept=False, **options)


def ours(made: Made, tol: float) -> dict[str, Any]:
    seconds, fitted = timed(lambda: model(made, tol).fit(made.X, made.y))
    found = fitted.certificate_
    told = getattr(fitted, "statistics_", {})
    return {
        "set": made.name, "who": "maxmargin", "target": tol, "seconds": seconds, "passes": fitted.n_iter_,
        "primal": found.primal, "gap": found.relative_gap, "certified": found.converged, **told,
        "history": [tuple(float(x) for x in (r.iteration, r.seconds, r.primal, r.dual)) for r in fitted.history_],
    }  # fmt: skip


def floor(made: Made, rows: int = 8192) -> dict[str, Any]:
    """Two products of a pass at tf32, and the duals read and written once."""
    n, d = made.X.shape
    W = torch.randn(made.classes, d, device="cuda")
    D = torch.randn(rows, made.classes, device="cuda")
    torch.set_float32_matmul_precision("high")

    def products() -> None:
        for start in range(0, n - rows + 1, rows):
            X = made.X[start : start + rows]
            X @ W.T
            D.T @ X

    products()
    seconds = timed(products)[0]
    A = torch.zeros(n, made.classes, device="cuda")
    A.add_(1.0)
    moved = timed(lambda: A.add_(1.0))[0]
    torch.set_float32_matmul_precision("highest")
    return {"set": made.name, "who": "floor", "products": seconds, "duals": moved}


def objective(made: Made, W: torch.Tensor) -> float:
    C, total = 1.0 / (LAM * len(made.X)), 0.0
    for X, y in zip(made.X.split(PART), made.y.split(PART)):
        total += float(hinges(X @ W.T, y).double().sum())
    return 0.5 * float(W.double().square().sum()) + C * total


def hinges(S: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    h = (S + 1.0).scatter(1, y[:, None], S.gather(1, y[:, None]))
    return h.amax(1) - S.gather(1, y[:, None])[:, 0]


def gradient_descent(made: Made, who: str, rate: float, target: float, limit: float) -> dict[str, Any]:
    """Mini-batch Adam or SGD with momentum and a rate that falls linearly, until the objective is reached."""
    torch.set_float32_matmul_precision("high")
    best: dict[str, Any] = {"set": made.name, "who": who, "rate": rate, "primal": float("inf"), "seconds": None}
    for passes in PASSES:
        W = torch.zeros(made.classes, made.X.shape[1], device="cuda", requires_grad=True)
        optimizer: torch.optim.Optimizer
        if who == "adam":
            optimizer = torch.optim.Adam([W], lr=rate, fused=True)
        else:
            optimizer = torch.optim.SGD([W], lr=rate, momentum=0.9, fused=True)
        many = passes * -(-len(made.X) // BATCH)
        falls = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, many)

        def run(W: torch.Tensor = W, optimizer: Any = optimizer, falls: Any = falls, passes: int = passes) -> None:
            for _ in range(passes):
                for rows in torch.randperm(len(made.X), device="cuda").split(BATCH):
                    optimizer.zero_grad(set_to_none=True)
                    loss = hinges(made.X[rows] @ W.T, made.y[rows]).mean() + 0.5 * LAM * W.square().sum()
                    loss.backward()
                    optimizer.step()
                    falls.step()

        seconds = timed(run)[0]
        with torch.no_grad():
            primal = objective(made, W)
        if primal < best["primal"]:
            best |= {"primal": primal, "passes": passes, "spent": seconds}
        if primal <= target:
            best |= {"seconds": seconds, "passes": passes}
            break
        if seconds > limit:
            break
    torch.set_float32_matmul_precision("highest")
    return best


def told(found: list[dict[str, Any]]) -> None:
    for each in found:
        print({k: (f"{v:.4g}" if isinstance(v, float) else v) for k, v in each.items() if k != "history"}, flush=True)
        for record in each.get("history", ()):
            print("    pass {:.0f}: {:.3f} s, P {:.2f}, D {:.2f}, gap {:.2e}".format(*record, 1 - record[3] / record[2]))


def arguments() -> argparse.Namespace:
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--rows", type=int, default=1_281_167)
    top.add_argument("--features", type=int, default=2048)
    top.add_argument("--classes", type=int, default=1000)
    top.add_argument("--only", nargs="*", default=["plain", "shifted"], choices=["plain", "shifted"])
    top.add_argument("--without-peers", action="store_true")
    top.add_argument("--repeat", type=int, default=3)
    top.add_argument("--limit", type=float, default=3.0, help="times our seconds after which Adam and SGD get no further try")
    top.add_argument("--json")
    return top.parse_args()


def main() -> None:
    given, found = arguments(), []
    warnings.simplefilter("ignore")
    print(f"{date.today()}, {torch.cuda.get_device_name()}, torch {torch.__version__}, Python {platform.python_version()}")
    for name in given.only:
        made = features(name, given.rows, given.features, given.classes, COMMON if name == "shifted" else 0.0)
        small = Made("first call", made.X[:20_000], made.y[:20_000], made.classes)
        print(f"first call: {timed(lambda small=small: model(small, 1e-2).fit(small.X, small.y))[0]:.2f} s", flush=True)
        new = [floor(made)] + [ours(made, tol) for tol in TARGETS for _ in range(given.repeat)]
        told(new)
        best = min((each for each in new[1:] if each["target"] == TARGETS[-1]), key=lambda each: each["seconds"])
        if not given.without_peers:
            for who, rates in RATES.items():
                for rate in rates:
                    new.append(gradient_descent(made, who, rate, best["primal"], given.limit * best["seconds"]))
                    told(new[-1:])
        found += new
    if given.json:
        with open(given.json, "w") as file:
            json.dump({"date": str(date.today()), "torch": torch.__version__, "found": found}, file, indent=1)


if __name__ == "__main__":
    main()
