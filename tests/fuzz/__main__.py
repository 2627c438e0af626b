"""python -m tests.fuzz: random problems against independent objectives and weak duality."""

import argparse
import sys
from pathlib import Path

import numpy as np

from .problems import KINDS, solved
from .run import many, summary


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="problems, of the numbers 0 to count - 1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    state = Path(".fuzz/state.jsonl")
    parser.add_argument("--state", type=Path, default=state, help="what is done is written there; a killed run goes on")
    parser.add_argument("--only", metavar="SEED:NUMBER", help="solve one problem in this process, and show what was drawn")
    parser.add_argument("--kind", choices=sorted(KINDS), help="only problems of this kind")
    parser.add_argument("--quick", action="store_true", help="with --only: as the ordinary tests draw it")
    return parser.parse_args()


def one(name: str, quick: bool, kind: str | None) -> int:
    """A problem with everything that was drawn, so that it can be pasted."""
    seed, number = (int(part) for part in name.split(":"))
    outcome = solved(seed, number, quick, kind)
    np.set_printoptions(threshold=sys.maxsize, linewidth=130, floatmode="unique")
    for key, value in outcome.notes.items():
        print(f"{key} = {value if key == 'traceback' else repr(value)}")
    print(f"{outcome.kind}: " + ("\n".join(outcome.findings) or "nothing found"))
    return bool(outcome.findings)


def main() -> int:
    given = arguments()
    if given.only:
        return one(given.only, given.quick, given.kind)
    records = many(given.count, given.seed, given.jobs, given.state, lambda line: print(line, flush=True), given.kind)
    print(f"\nseed {given.seed}, kinds: {given.kind or ', '.join(KINDS)}\n{summary(records)}")
    return int(any(record["findings"] for record in records))


if __name__ == "__main__":
    sys.exit(main())
