"""Certified linear models on a GPU: sets as large as ImageNet, beside mini-batch Adam and SGD in plain PyTorch.

    python -m benchmarks.gpu [--only NAME ...] [--scale PART] [--quick] [--without-peers] [--profile] [--json FILE]

`gpu_sets` says what the sets are. Seconds of a fit are those of `fit` with the data on the device and kernels compiled;
"certificates" is what its exact values took of them. The first call, on a part of the rows, is timed by itself. Evaluations of
Adam and SGD are off their clocks, and so are the rates and lengths that did not do: their time is that of the best. The floor is
two matrix products of a pass at tf32, and the duals read and written once. "streamed" is the first set in host memory, with a
budget of device memory that it does not fit in, beside a plain copy from pinned memory; "cores" is a part of the rows of a set,
fitted on the processor by all cores and on the GPU, both times without the compilation.
"""

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

try:
    import torch
except ModuleNotFoundError:
    raise SystemExit('benchmarks.gpu needs torch: pip install "maxmargin[bench,gpu]"') from None

from maxmargin.problems.tensors import TensorProblem
from maxmargin.solvers.device.ascent import DeviceAscent

from .gpu_sets import LAM, SHAPES, Made, made

PASS = "passed"  # what does a pass
TARGETS = (1e-2, 1e-3)
RATES = {"adam": (1e-3, 3e-3, 1e-2, 3e-2), "sgd": (10.0, 30.0, 100.0)}
PASSES = (2, 4, 8, 16, 32)  # of Adam and SGD, each time from zero: their rate falls to nothing at the end
BUDGET = 1.6  # times the bytes of X: what a fit from host memory may take of the device. X alone may take 0.6 of it.
SMALL, SOME = 20_000, 12  # rows and passes of the first call
QUICK = 1e-3  # part of the rows


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    torch.cuda.synchronize()
    begin = time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    return time.perf_counter() - begin, found


@contextmanager
def clocked_certificates() -> Iterator[list[float]]:
    """The seconds of each exact value that is computed meanwhile."""
    found: list[float] = []
    before = {name: getattr(TensorProblem, name) for name in ("evaluate", "primal")}

    def clocked(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **options: Any) -> Any:
            seconds, value = timed(lambda: work(*given, **options))
            found.append(seconds)
            return value

        return run

    for name, work in before.items():
        setattr(TensorProblem, name, clocked(work))
    try:
        yield found
    finally:
        for name, work in before.items():
            setattr(TensorProblem, name, work)


def ours(made: Made, tol: float) -> dict[str, Any]:
    with clocked_certificates() as exact:
        seconds, fitted = timed(lambda: made.model(tol).fit(made.X, made.y))
    found = fitted.certificate_
    return {
        "set": made.name, "who": "maxmargin", "target": tol, "seconds": seconds, "certificates": sum(exact),
        "passes": fitted.n_iter_, "primal": found.primal, "gap": found.relative_gap, "certified": found.converged,
        "history": [tuple(float(x) for x in (r.iteration, r.seconds, r.primal, r.dual)) for r in fitted.history_],
    }  # fmt: skip


def floor(made: Made, rows: int = 8192) -> dict[str, Any]:
    """Two products of a pass at tf32, and the duals read and written once."""
    n, d = made.X.shape
    scores = made.shape.scores
    rows = min(rows if scores > 1 else 32 * rows, n)
    W, D = torch.randn(scores, d, device="cuda"), torch.randn(rows, scores, device="cuda")
    torch.set_float32_matmul_precision("high")

    def products() -> None:
        for start in range(0, n - rows + 1, rows):
            X = made.X[start : start + rows]
            X @ W.T
            D.T @ X

    products()
    seconds = timed(products)[0]
    A = torch.zeros(n, scores, device="cuda")
    A.add_(1.0)
    moved = timed(lambda: A.add_(1.0))[0]
    torch.set_float32_matmul_precision("highest")
    return {"set": made.name, "who": "floor", "products": seconds, "duals": moved}


def descended(made: Made, who: str, rate: float, passes: int) -> tuple[float, torch.Tensor]:
    """Mini-batch Adam or SGD with momentum and a rate that falls linearly: seconds, and weights."""
    W = torch.zeros(made.shape.scores, made.X.shape[1], device="cuda", requires_grad=True)
    optimizer: torch.optim.Optimizer
    if who == "adam":
        optimizer = torch.optim.Adam([W], lr=rate, fused=True)
    else:
        optimizer = torch.optim.SGD([W], lr=rate, momentum=0.9, fused=True)
    batch = min(made.kind.batch, len(made.X))
    falls = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, passes * -(-len(made.X) // batch))

    def run() -> None:
        for _ in range(passes):
            for rows in torch.randperm(len(made.X), device="cuda").split(batch):
                optimizer.zero_grad(set_to_none=True)
                losses = made.kind.losses(made.X[rows] @ W.T, made.y[rows])
                (losses.mean() + 0.5 * LAM * W.square().sum()).backward()
                optimizer.step()
                falls.step()

    return timed(run)[0], W.detach()


def gradient_descent(made: Made, who: str, target: float, limit: float) -> Iterator[dict[str, Any]]:
    """For each rate the fewest passes that reach the objective, or the best that was reached within the limit of seconds."""
    torch.set_float32_matmul_precision("high")
    fastest = limit
    for rate in RATES[who]:
        best: dict[str, Any] = {"set": made.name, "who": who, "rate": rate, "target": target, "primal": float("inf")}
        for passes in PASSES:
            seconds, W = descended(made, who, rate, passes)
            primal = made.objective(W)
            if primal < best["primal"]:
                best |= {"primal": primal, "passes": passes, "spent": seconds}
            if primal <= target:
                best |= {"seconds": seconds, "passes": passes}
                fastest = min(fastest, seconds)
            if primal <= target or 2.0 * seconds > fastest:
                break
        yield best
    torch.set_float32_matmul_precision("highest")


def told(each: dict[str, Any]) -> None:
    print({k: (f"{v:.5g}" if isinstance(v, float) else v) for k, v in each.items() if k != "history"}, flush=True)
    for record in each.get("history", ()):
        print("    pass {:.0f}: {:.3f} s, P {:.2f}, D {:.2f}, gap {:.2e}".format(*record, 1 - record[3] / record[2]))


def profiled(made: Made, tol: float) -> None:
    """Where the time of a fit goes."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        made.model(tol).fit(made.X, made.y)
        torch.cuda.synchronize()
    rows = [each for each in found.key_averages() if each.self_device_time_total > 0 and each.device_type.name == "CUDA"]
    rows.sort(key=lambda each: -each.self_device_time_total)
    total = sum(each.self_device_time_total for each in rows)
    print(f"{made.name}: {total / 1e6:.3f} s of the device to {tol:g}")
    for each in rows[:14]:
        print(f"    {each.self_device_time_total / 1e6:8.4f} s {each.count:7d} x {each.key[:100]}", flush=True)


def of_set(made: Made, given: argparse.Namespace) -> list[dict[str, Any]]:
    small = made.first(min(SMALL, len(made.X)))
    first = timed(lambda: small.model(1e-2, max_iter=SOME).fit(small.X, small.y))[0]
    found = [{"set": made.name, "who": "first call", "seconds": first}, floor(made)]
    for tol in TARGETS:
        found += [ours(made, tol) for _ in range(given.repeat)]
    for each in found:
        told(each)
    if given.profile:
        profiled(made, TARGETS[-1])
    if given.cores:
        found.append(cores(made, min(given.cores, len(made.X))))
        told(found[-1])
    best = min((each for each in found if each.get("target") == TARGETS[-1]), key=lambda each: each["seconds"])
    if not given.without_peers:
        for who in RATES:
            for each in gradient_descent(made, who, best["primal"], given.limit * best["seconds"]):
                found.append(each)
                told(each)
    return found


def pinned_bandwidth() -> float:
    """Bytes a second of a plain copy."""
    here, there = torch.empty(1 << 28, pin_memory=True), torch.empty(1 << 28, device="cuda")
    return here.numel() * 4 / min(timed(lambda: there.copy_(here, non_blocking=True))[0] for _ in range(5))


def in_host_memory(name: str, scale: float) -> tuple[Any, Any, Any]:
    """A model and the samples of a set, which is gone from the device."""
    found = made(name, scale)
    return found.model(TARGETS[-1], device="cuda"), found.X.cpu().numpy(), found.y.cpu().numpy()


def streamed(name: str, scale: float) -> dict[str, Any]:
    """A fit to X in host memory that the budget of device memory has no room for, and the bandwidth of its passes."""
    model, X, y = in_host_memory(name, scale)
    copied = pinned_bandwidth()
    torch.cuda.empty_cache()
    passes: list[float] = []
    own = DeviceAscent.passed

    def clocked(run: DeviceAscent, stop: Callable[[], bool]) -> float:
        seconds, estimate = timed(lambda: own(run, stop))
        passes.append(seconds)
        return float(estimate)

    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(min(BUDGET * X.nbytes / total, 1.0))
    setattr(DeviceAscent, PASS, clocked)
    try:
        seconds, fitted = timed(lambda: model.fit(X, y))
    finally:
        setattr(DeviceAscent, PASS, own)
        torch.cuda.set_per_process_memory_fraction(1.0)
    found, full = fitted.certificate_, min(passes[1:3])  # kernels are compiled in the first; in later ones whole pieces may rest
    return {
        "set": name, "who": "streamed", "seconds": seconds, "passes": fitted.n_iter_, "gap": found.relative_gap,
        "certified": found.converged, "bandwidth": X.nbytes / full, "of a pinned copy": X.nbytes / full / copied,
        "pass seconds": passes, "copy": copied,
    }  # fmt: skip


def cores(made: Made, rows: int) -> dict[str, Any]:
    """The same rows on the processor and on the GPU."""
    part = made.first(rows)
    X, y = part.X.cpu().numpy(), part.y.cpu().numpy()
    tiny = slice(0, 2000)
    part.model(0.5, n_jobs=-1, max_iter=2).fit(X[tiny], y[tiny])
    begin = time.perf_counter()
    slow = part.model(TARGETS[-1], n_jobs=-1).fit(X, y)
    seconds = time.perf_counter() - begin
    ours(part, TARGETS[-1])
    fast = ours(part, TARGETS[-1])
    return {
        "set": made.name, "who": "cores", "rows": rows, "cores": os.cpu_count(), "seconds": seconds,
        "gap": slow.certificate_.relative_gap, "gpu seconds": fast["seconds"], "times": seconds / fast["seconds"],
    }  # fmt: skip


def of_peer(found: list[dict[str, Any]], name: str, who: str) -> str:
    """The seconds of the best rate; where none has got there, the longest that was tried."""
    tried = [each for each in found if each["set"] == name and each["who"] == who]
    reached = [each["seconds"] for each in tried if "seconds" in each]
    if reached:
        return f"{min(reached):.2f}"
    return f"> {max(each['spent'] for each in tried):.2f}" if tried else "-"


def table(found: list[dict[str, Any]]) -> str:
    """One line for each set: the fastest of each."""
    lines = [
        "| set | 1e-2, s | 1e-3, s | of it certificates | passes | a pass / floor | Adam, s | SGD, s |",
        "|---|" + "---:|" * 7,
    ]

    def fastest(name: str, who: str, target: float | None = None) -> dict[str, Any]:
        fits = [e for e in found if e["set"] == name and e["who"] == who and "seconds" in e]
        fits = [e for e in fits if target is None or (e["target"] == target and e["certified"])]
        return min(fits, key=lambda e: e["seconds"], default={})

    def said(each: dict[str, Any], key: str, form: str = ".2f") -> str:
        return format(each[key], form) if key in each else "-"

    for name in dict.fromkeys(each["set"] for each in found):
        first, last = (fastest(name, "maxmargin", tol) for tol in TARGETS)
        least = next(each for each in found if each["set"] == name and each["who"] == "floor")
        times = "-"
        if last:
            times = f"{(last['seconds'] - last['certificates']) / last['passes'] / (least['products'] + least['duals']):.1f}"
        cells = [said(first, "seconds"), said(last, "seconds"), said(last, "certificates"), said(last, "passes", "d"), times]
        cells += [of_peer(found, name, who) for who in RATES]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--only", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    top.add_argument("--scale", type=float, default=1.0, help="part of the rows of each set")
    top.add_argument("--quick", action="store_true", help="seconds on a thousandth of the rows, once, to see that all works")
    top.add_argument("--without-peers", action="store_true")
    top.add_argument("--profile", action="store_true", help="where the time of a fit goes")
    top.add_argument("--streamed", action="store_true", help="the first set from host memory")
    top.add_argument("--cores", type=int, default=0, help="so many rows of each set on the processor as well")
    top.add_argument("--repeat", type=int, default=3)
    top.add_argument("--limit", type=float, default=3.0, help="times our seconds after which Adam and SGD get no further try")
    top.add_argument("--json")
    given = top.parse_args()
    if given.quick:
        given.scale, given.repeat, given.limit = QUICK, 1, 1.0
    return given


def written(path: str | None, head: str, found: list[dict[str, Any]]) -> None:
    if path:
        with open(path, "w") as file:
            json.dump({"head": head, "found": found}, file, indent=1)


def main() -> None:
    given, found = arguments(), []
    warnings.simplefilter("ignore")
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks.gpu needs a GPU, and torch finds none here.")
    head = f"{date.today()}, {torch.cuda.get_device_name()}, torch {torch.__version__}, Python {platform.python_version()}"
    print(head, flush=True)
    for name in given.only:
        found += of_set(made(name, given.scale), given)
        torch.cuda.empty_cache()
        written(given.json, head, found)
    print(table(found))
    if given.streamed:
        found.append(streamed(next(iter(SHAPES)), given.scale))
        told(found[-1])
        written(given.json, head, found)


if __name__ == "__main__":
    main()
