"""How `make fuzz` keeps its state, and what becomes of problems that hang or end their process."""

import json
import os
import time

from fuzz import clock, run

from maxmargin.jit import COMPILING


def test_a_killed_run_goes_on_and_findings_are_run_again(tmp_path, monkeypatch):
    asked = []

    def outcomes(seed, numbers, jobs, kind):
        asked.append(numbers)
        for number in numbers:
            findings = ["wrong"] if number == 2 and len(asked) == 1 else []
            yield {"number": number, "kind": "binary", "findings": findings, "left_out": [], "seconds": 0.0}

    monkeypatch.setattr(run, "outcomes", outcomes)
    state, told = tmp_path / "new" / "state.jsonl", []
    assert [record["number"] for record in run.many(4, 1, 2, state, told.append) if record["findings"]] == [2]
    with state.open("a") as file:
        file.write('{"seed": 1, "numb')  # killed while it wrote
        file.write("\n" + json.dumps({"seed": 1, "stamp": "of other files", "number": 5, "findings": []}) + "\n")
    records = run.many(6, 1, 2, state, told.append)
    assert asked == [[0, 1, 2, 3], [2, 4, 5]] and len(records) == 6
    assert told == ["1:2 binary: wrong", "3 of 6 problems were done before"]
    assert run.many(6, 2, 2, state, told.append) and asked[-1] == [0, 1, 2, 3, 4, 5]  # another seed has other problems


def test_a_hang_and_a_death_are_findings(monkeypatch):
    """Workers are killed when they are late, and started again when they died."""
    monkeypatch.setattr(run, "serve", _odd)
    monkeypatch.setattr(run, "LIMIT", 1.0)
    found = {record["number"]: record["findings"] for record in run.outcomes(0, [0, 1, 2, 3], 1)}
    assert found[0] == found[3] == [] and found[1][0].startswith("no end after") and "exit code 3" in found[2][0]


def _odd(pipe, seed, kind, compiled):
    """A worker that hangs at the problem 1 and dies at 2."""
    pipe.send(run.READY)
    while (number := pipe.recv()) is not None:
        if number == 1:
            time.sleep(60)
        if number == 2:
            os._exit(3)
        pipe.send(([], []))


def test_waiting_for_another_that_compiles_is_no_part_of_the_time_of_a_problem():
    """Kernels are compiled, loaded and waited for under one lock, and workers tell how long they have held it."""
    told, before = [], clock.compiling()
    clock.tell(lambda total, since: told.append((total, since)))
    try:
        with COMPILING, COMPILING:
            time.sleep(0.02)
    finally:
        clock.tell(lambda total, since: None)
    assert clock.compiling() - before >= 0.02
    assert [since > 0.0 for _, since in told] == [True, False]
