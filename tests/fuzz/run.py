"""Many problems on several processes: each has a limit of time, what is done is written down, and a killed run goes on."""

import hashlib
import json
import multiprocessing as mp
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .order import kind_of

LIMIT = 20.0  # seconds for a problem, compilation left out
LONGEST = 600.0  # and with it
READY = "ready"  # what a worker says when it has imported everything


def serve(pipe: Connection, seed: int, kind: str | None, compiled: Any) -> None:
    """What a worker does: problems by number, until it is told None. Only here is everything imported."""
    from . import clock
    from .problems import solved

    def tell(total: float, since: float) -> None:
        compiled[0], compiled[1] = total, since

    clock.tell(tell)
    pipe.send(READY)
    while (number := pipe.recv()) is not None:
        outcome = solved(seed, number, kind=kind)
        pipe.send((outcome.findings, outcome.left_out))


class Worker:
    """A process, the number it works on, and since when."""

    def __init__(self, seed: int, kind: str | None):
        self.seed, self.kind = seed, kind
        self.start()

    def start(self) -> None:
        context = mp.get_context("spawn")
        self.pipe, there = context.Pipe()
        self.compiled = context.Array("d", [0.0, 0.0], lock=False)
        self.process = context.Process(target=serve, args=(there, self.seed, self.kind, self.compiled), daemon=True)
        self.process.start()
        there.close()
        self.number: int | None = None
        self.ready = False

    def give(self, number: int) -> None:
        self.number, self.before = number, self.compiled[0]
        self.since = time.time()
        self.pipe.send(number)

    def begin(self) -> None:
        self.ready, self.since = True, time.time()

    def late(self) -> bool:
        now = time.time()
        compiling = self.compiled[0] - self.before + (now - self.compiled[1] if self.compiled[1] else 0.0)
        spent = now - self.since
        return (self.ready and spent - compiling > LIMIT) or spent > LONGEST

    def stop(self) -> None:
        self.process.kill()  # one that hangs in a kernel hears nothing else
        self.process.join()
        self.pipe.close()

    def restart(self) -> None:
        self.stop()
        self.start()


def outcomes(seed: int, numbers: list[int], jobs: int, kind: str | None = None) -> Iterator[dict]:
    """A record of each problem, as they end. One that never ends, or ends its process, is a finding."""
    workers = [Worker(seed, kind) for _ in range(min(jobs, len(numbers)))]
    todo = iter(numbers)
    try:
        for worker in workers:
            worker.give(next(todo))
        while busy := [worker for worker in workers if worker.number is not None]:
            ready = set(wait([worker.pipe for worker in busy], timeout=0.5))
            for worker in busy:
                findings: list[str] = []
                left_out: list[str] = []
                if worker.pipe in ready:
                    try:
                        message = worker.pipe.recv()
                        if message == READY:
                            worker.begin()
                            continue
                        findings, left_out = message
                    except EOFError:
                        worker.process.join(5)
                        findings = [f"the process died with exit code {worker.process.exitcode}"]
                elif worker.late():
                    findings = [f"no end after {time.time() - worker.since:.0f} s"]
                else:
                    continue
                yield {
                    "number": worker.number,
                    "kind": kind or kind_of(worker.number or 0),
                    "findings": findings,
                    "left_out": left_out,
                    "seconds": round(time.time() - worker.since, 3),
                }
                if worker.pipe not in ready or not worker.process.is_alive():
                    worker.restart()
                worker.number = None
                if (number := next(todo, None)) is not None:
                    worker.give(number)
    finally:
        for worker in workers:
            worker.stop()


# ---- what is written down -------------------------------------------------------------------------------------------------


def stamp() -> str:
    """A hash of this folder: numbers mean other problems when it changes."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def recorded(state: Path, seed: int, kind: str | None) -> dict[int, dict]:
    """The last record of each problem of this seed and kind, where it was made by these very files."""
    found: dict[int, dict] = {}
    if state.exists():
        for line in state.read_text().splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:  # the line that was being written when the run was killed
                continue
            if (record.get("seed"), record.get("stamp"), record.get("only")) == (seed, stamp(), kind):
                found[record["number"]] = record
    return found


def many(count: int, seed: int, jobs: int, state: Path, told, kind: str | None = None) -> list[dict]:
    """The records of problems 0 ... count - 1, those of earlier runs among them; problems with findings are run again."""
    state.parent.mkdir(parents=True, exist_ok=True)
    known = recorded(state, seed, kind)
    done = {number: record for number, record in known.items() if number < count and not record["findings"]}
    numbers = [number for number in range(count) if number not in done]
    if done:
        told(f"{len(done)} of {count} problems were done before")
    made, begun = stamp(), time.time()
    if numbers:
        with state.open("a") as file:
            for k, record in enumerate(outcomes(seed, numbers, jobs, kind), 1):
                file.write(json.dumps({"seed": seed, "stamp": made, "only": kind} | record) + "\n")
                file.flush()
                done[record["number"]] = record
                for finding in record["findings"]:
                    told(f"{seed}:{record['number']} {record['kind']}: {finding}")
                if k % 100 == 0:
                    told(f"{k} of {len(numbers)} in {time.time() - begun:.0f} s")
    return [done[number] for number in sorted(done)]


def summary(records: list[dict]) -> str:
    """Counts by kind, and what was left out for want of a library."""
    kinds, wrong = Counter(r["kind"] for r in records), Counter(r["kind"] for r in records if r["findings"])
    missing = Counter(name for record in records for name in record["left_out"])
    lines = [f"{kind:18} {kinds[kind]:6} problems {wrong[kind]:4} with findings" for kind in sorted(kinds)]
    lines += [f"{name} is not installed: {count} problems went without it" for name, count in sorted(missing.items())]
    return "\n".join([*lines, f"{'all':18} {len(records):6} problems {sum(wrong.values()):4} with findings"])
