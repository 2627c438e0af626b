"""`python -m maxmargin.warm`, and processes that compile at once."""

import os
import subprocess
import sys
import time

import pytest

from maxmargin import jit, warm
from maxmargin.jit import cache

pytestmark = pytest.mark.compiled

FIT = """
import warnings
warnings.simplefilter("ignore")
import numpy as np
import scipy.sparse as sp
from maxmargin.data.rows import listed_norms
from maxmargin.data.rows import rows
open({started!r} + str({k}), "w").close()
import os, time
while not all(os.path.exists({started!r} + str(k)) for k in range(2)):
    time.sleep(0.005)
listed_norms(rows(sp.csr_array(np.ones((3, 2))), 0.0), np.empty(0), np.empty(3), 0)
print(sum(listed_norms.cached.stats.cache_misses.values()), sum(listed_norms.cached.stats.cache_hits.values()))
"""


def test_it_compiles_what_is_asked_for_and_says_so(tmp_path, monkeypatch):
    done = []
    monkeypatch.setitem(warm.TASKS, "binary", lambda layout: done.append(layout))
    assert warm.compile_task("binary", "sparse") >= 0.0
    assert done == [warm.LAYOUTS["sparse"]]


def test_every_task_is_a_fit_that_works():
    """Of the smallest kind; the others are held by their estimators' tests."""
    warm.TASKS["binary"](warm.LAYOUTS["dense"])


@pytest.mark.parametrize(
    ("given", "said"),
    [(["trees"], "there is nothing called 'trees' to compile; there is binary,"), (["--jobs", "0"], "0 processes are too few.")],
)
def test_what_it_refuses(given, said, capsys):
    with pytest.raises(SystemExit) as ended:
        warm.command(given)
    assert ended.value.code == 2 and said in capsys.readouterr().err


def test_no_folder_to_keep_kernels_in(monkeypatch):
    monkeypatch.setattr(warm, "keeps_kernels", lambda: False)
    with pytest.raises(SystemExit, match="no folder in which compiled kernels could be kept; set NUMBA_CACHE_DIR"):
        warm.command(["binary"])


def test_two_processes_do_not_compile_the_same(tmp_path):
    kept = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    texts = [FIT.format(started=str(tmp_path / "started"), k=k) for k in range(2)]
    both = [
        subprocess.Popen([sys.executable, "-c", text], env=os.environ | kept, stdout=subprocess.PIPE, text=True)
        for text in texts
    ]
    found = sorted(process.communicate(timeout=120)[0].split() for process in both)
    assert found == [["0", "1"], ["1", "0"]]


def test_to_wait_is_to_compile(tmp_path, monkeypatch):
    """By the clock of limits of time."""
    monkeypatch.setattr(cache, "LONGEST_WAIT", 0.5)
    with cache.undisturbed(tmp_path / "kernel.lock"):
        before, begin = jit.clock(), time.monotonic()
        assert jit.compile_alone(lambda kinds: kinds, lambda: tmp_path / "kernel.lock", "float") == "float"
        assert time.monotonic() - begin >= 0.4 and jit.clock() - before < 0.2


def test_a_lock_is_waited_for_no_longer_than_is_sensible(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "LONGEST_WAIT", 0.05)
    path = tmp_path / "kernel.lock"
    with cache.undisturbed(path):
        begin = time.monotonic()
        with cache.undisturbed(path):
            assert 0.04 <= time.monotonic() - begin < 5.0
    begin = time.monotonic()
    with cache.undisturbed(path):
        assert time.monotonic() - begin < 0.04
    with cache.undisturbed(tmp_path / "no folder" / "kernel.lock"):
        pass
