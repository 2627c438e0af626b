"""What holds of all benchmarks without running them; `make bench-quick` runs each in a form of seconds."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from benchmarks import multilabel_sets, online, sequences, stand_ins, summary, workloads
from benchmarks.__main__ import QUICK, parser

ROOT = Path(__file__).parents[2]
MODULES = {"scikit-learn": "sklearn", "liblinear-official": "liblinear", "python-crfsuite": "pycrfsuite"}  # that have other names
WITH = {"matplotlib": {"PIL"}}  # what comes with it
ELSEWHERE = {"maxmargin", "benchmarks", "torch"}  # torch is the extra gpu


def commands() -> set[str]:
    return set(re.search(r"\{([\w,]+)\}", parser().format_usage())[1].split(","))


def test_every_family_has_a_quick_form():
    assert set(QUICK) == commands() - {"all", "summary"}
    for name, options in QUICK.items():
        typed = parser(quick=True).parse_args([name, "--quick"])
        whole = parser().parse_args([name])
        assert typed.quick
        for option, chosen in options.items():
            assert getattr(typed, option) == chosen
            assert not getattr(whole, option) or set(chosen) <= set(getattr(whole, option))  # names that there are


def imported(path: Path) -> set[str]:
    """The packages that a file imports, at its top or within functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names)


def required(project: dict, extra: str) -> set[str]:
    """The modules that an extra brings, with those of the package itself."""
    found = set()
    for text in [*project["dependencies"], *project["optional-dependencies"][extra]]:
        name = re.match(r"[\w-]+", text)[0]
        if name == "maxmargin":
            for other in re.search(r"\[(.*)\]", text)[1].split(","):
                found |= required(project, other)
        else:
            found |= {MODULES.get(name, name), *WITH.get(name, ())}
    return found


def test_extra_bench_has_all_imports():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = set().union(*(imported(path) for path in (ROOT / "benchmarks").glob("*.py")))
    assert {"pycrfsuite", "vowpalwabbit", "sklearn"} <= needed
    assert needed - ELSEWHERE <= required(project, "bench")


def test_stand_ins_are_read_as_the_real_sets():
    with stand_ins.instead():
        for name in workloads.SETS:
            X, y = workloads.Workload(name, 100).load()
            assert X.shape[0] == len(y) == 100
        for name in multilabel_sets.REAL:
            found = multilabel_sets.real(name)
            assert found.Y.any(axis=0).all() and not found.Y.all(axis=0).any()
        for name in sequences.SETS:
            assert len(sequences.load(name, quick=True)) >= stand_ins.WORDS
        assert set(map(len, sequences.proteins("test"))) == {20}


@pytest.mark.parametrize("stream", online.streams(quick=False).values(), ids=lambda stream: stream.name)
def test_peers_of_streams_have_our_lam(stream):
    alpha = online.learner(stream, {"rate": ("optimal", 0.0), "average": False}).alpha
    assert alpha == stream.lam and stream.lam in (1e-4, 1e-5)


def test_peer_that_never_arrives_is_a_bound():
    """A ratio to all that it was given, with `<`."""
    ours, first = online.Line("once", "ours", 2.0, 2.0, error=0.1), online.Line("sgd", "its", 5.0, 5.0, reads=1, error=0.2)
    for error, ratio in ((0.3, "< 0.25"), (0.1, "0.25")):
        second = online.Line("sgd", "its", 8.0, 8.0, reads=2, error=error)
        [said] = online.verdicts({"once": [ours], "sgd": [first, second]}, None)
        assert summary.streams({"online: dense2": said})[0][-1] == f"dense2 {ratio}"
