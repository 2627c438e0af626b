"""The benchmark of threads: a peer that takes too long is killed, and so is what it has started."""

import sys
import time

import pytest

from benchmarks.core_peers import LIBLINEAR, PEERS, multicore_version, outcome, present

FITS = "print('loaded', flush=True); print('warm', flush=True)\n"


def said_by(script: str, repeat: int = 1, limit: float = 5.0) -> tuple[str, str]:
    return outcome([sys.executable, "-c", script], repeat, limit)


def test_seconds_are_the_median_and_accuracy_is_the_last_line():
    assert said_by(FITS + "print(3.0); print(1.0); print(2.0); print(0.875)", repeat=3) == ("2.00", "87.5 %")


@pytest.mark.parametrize("before", ["print('loaded', flush=True)\n", FITS])
def test_who_takes_too_long_is_killed(before):
    begin = time.perf_counter()
    assert said_by(before + "import time; time.sleep(60)", limit=0.5) == ("> 0.5", "-")
    assert time.perf_counter() - begin < 20.0


def test_processes_of_a_peer_are_killed_with_it(tmp_path):
    mark = tmp_path / "alive"
    child = f"import time; time.sleep(2.0); open({str(mark)!r}, 'w')"
    script = FITS + f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    assert said_by(script, limit=0.5) == ("> 0.5", "-")
    time.sleep(3.0)
    assert not mark.exists()


def test_failure_is_no_time():
    assert said_by("raise SystemExit(1)") == ("failed", "-")
    assert said_by(FITS + "raise SystemExit(1)") == ("failed", "-")


def test_liblinear_is_left_out_of_many_classes():
    assert LIBLINEAR not in present(100)
    assert [peer for peer in present(1) if peer != LIBLINEAR] == [peer for peer in PEERS if peer != LIBLINEAR]
    assert (LIBLINEAR in present(1)) == (multicore_version() is not None)
