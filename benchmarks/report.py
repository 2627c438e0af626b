"""Tables, and the file that keeps them. `RESULTS.md` consists of named sections; a run replaces the sections it measured."""

import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
PACKAGES = (
    "maxmargin", "numpy", "scipy", "numba", "scikit-learn", "liblinear-official", "rehline", "python-crfsuite", "vowpalwabbit"
)  # fmt: skip
INTRODUCTION = """# Benchmark results

Written by `python -m benchmarks`; do not edit. Each section names the command, the date and the machine that made it.

Only ratios within one table mean anything: the solvers of a table ran in turns on one machine, on the same data, to the same
value of an objective that `benchmarks/objectives.py` computes in plain NumPy. A ratio is a solver's time over the peer's; below 1
is faster than the peer.

- *Suboptimality* (the columns 1e-2, 1e-3, 1e-4) is (P - P*) / P*, with P* the lowest objective seen by anyone. Each solver is run
  over a grid of its stopping parameter, and the fastest setting that gets there counts (median of the runs).
- `> 120`: a fit was killed after 120 seconds. `never`: the solver ended above the value at every setting. `ep`: passes over the
  data.
- *Certified* is a whole fit with `tol=1e-3`, which uses no knowledge of P*. Its ratio is to the peer's time to suboptimality
  1e-3.
- `*`: LIBLINEAR, whose passes are limited to 300, never got there; the ratio is to scikit-learn, which runs the same algorithm
  longer.
- *Extra MB* is the growth of a fresh process during the fit.
- Times are those of later calls; compilation has a section of its own (startup). LIBLINEAR's problem object is made before its
  clock starts and before its memory is measured.
"""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, padded so that it reads well as plain text too; the first column to the left, the others to the right"""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        return " | ".join(["| " + cells[0].ljust(widths[0]), *padded[1:]]) + " |"

    rule = "|".join(("-" * (width + 1) + ":") if i else "-" * (width + 2) for i, width in enumerate(widths))
    return "\n".join([line(head), f"|{rule}|", *map(line, rows)])


def columns(text: str) -> dict[str, list[str]]:
    """The first table of a section by the names of its columns"""
    lines = [[cell.strip() for cell in one.strip().strip("|").split("|")] for one in text.splitlines() if one.startswith("|")]
    head, body = lines[0], [cells for cells in lines[2:] if len(cells) == len(lines[0])]
    return {name: [cells[k] for cells in body] for k, name in enumerate(head)}


def figure(value: float | None, digits: int = 3) -> str:
    """A number with so many significant digits, without an exponent; a dash for None"""
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 10 ** (digits - 1):
        return f"{value:.0f}"
    text = f"{value:#.{digits}g}"
    return f"{value:.6f}" if "e" in text else text


def megabytes(size: float | None) -> str:
    return "-" if size is None else figure(size / 1e6, 2)


def cpu_model() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if found is None:
            listing = subprocess.run(["lscpu"], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"})
            found = re.search(r"^Model name:\s*(.+)$", listing.stdout, re.MULTILINE)
        if found is not None:
            return found.group(1).strip()
    except (OSError, subprocess.CalledProcessError):
        pass
    return platform.processor() or "unknown processor"


def without(*modules: str) -> str | None:
    """What to install where one of these modules is missing, in a sentence; None where all are there."""
    missing = [name for name in modules if find_spec(name) is None]
    return f'{" and ".join(missing)} not installed: pip install "maxmargin[bench]"' if missing else None


def cores() -> int:
    """The cores this process may use"""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> str:
    """Processor, system and versions; neither the name of the host nor any path"""
    versions = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    load = f"load {os.getloadavg()[0]:.1f}"
    return f"{cpu_model()}, cores: {cores()} ({load}), {platform.system()} {platform.machine()}; {', '.join(versions)}"


def command() -> str:
    """What the user typed; of an absolute path only the last part"""
    words = [Path(word).name if os.path.isabs(word) else word for word in sys.argv[1:]]
    return shlex.join(["python", "-m", "benchmarks", *words])


class Report:
    """Prints each section as soon as it is known and keeps it in `path` (None: printed only)."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.origin = f"`{command()}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}"
        print(self.origin, flush=True)

    def section(self, name: str, body: str) -> None:
        print(f"\n## {name}\n\n{body}", flush=True)
        self.keep(name, body)

    def keep(self, name: str, body: str) -> None:
        """Write a section without showing it: what there is of one so far, that a run which is stopped has left."""
        if self.path is not None:
            sections = read(self.path)
            sections[name] = f"{self.origin}\n\n{body}"
            self.path.write_text(written(sections), encoding="utf-8")


def read(path: Path) -> dict[str, str]:
    """The sections of a results file by name, in the order of the file"""
    if not path.exists():
        return {}
    parts = re.split(r"^## (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {name.strip(): body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def written(sections: dict[str, str]) -> str:
    return INTRODUCTION + "".join(f"\n## {name}\n\n{body}\n" for name, body in sections.items())
