"""`Checkpoint`: a fit that was killed goes on where it was."""

import os
import platform
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ..callbacks import Keeping
from ..jit import STAMP
from ..problems.base import Problem
from ..solvers.base import Solver
from ..solvers.keeping import Keeper
from ..utils.state import RunState
from .container import ModelFileError, damage_told, read_stored, versions, why, write_stored
from .described import Describer
from .fingerprint import SCHEME, fingerprint
from .restored import Restorer

CHECKPOINT = "checkpoint"
SELDOM = 100.0  # times what they take, that a fit lasts: a hundredth of the time
# What a fit that goes on may have otherwise: when it ends, and what it shows.
FREE = {"max_iter", "max_time", "verbose", "n_jobs", "warm_start"}
WHOLE_FIT = "fit"
BITS_OF = ("numpy", "scipy", "scikit-learn", "numba")


class Checkpoint(Keeping):
    """Keeps the state of a fit in a file, so that one that was killed goes on where it was.

    Attach it with `estimator.set_callbacks(mm.Checkpoint(path))` and call `fit`. If the process dies, do the same again with the
    same data and parameters: the fit goes on, and ends with the same model to the last bit (on the same kind of machine, with the
    same versions and `n_jobs`; elsewhere it goes on from the duals, and says so). A checkpoint of other data or parameters is
    refused: functions and objects of your own are compared by what they do and hold, and refused where that cannot be known.
    `max_iter`, `max_time`, `verbose` may be others. The file goes away when the fit has reached its target.

    The state is taken between passes, as it is: when one is written changes no bit of the model. Files are written whole or not
    at all. Where one cannot be written, a warning says so, and the fit goes on.

    Parameters
    ----------
    path : str or path
        Where to keep the state; one file for one fit.
    every : float, default=60.0
        Seconds between two of them, and not before a hundred times what the last one took, nor before all of them, with the next
        one, are a hundredth of the fit. A fit that takes less costs nothing.
    """

    def __init__(self, path: str | os.PathLike[str], every: float = 60.0):
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path must be a text or a path; got {path!r}.")
        if isinstance(every, bool) or not isinstance(every, int | float) or not every >= 0.0:
            raise ValueError(f"every must be a number of seconds >= 0; got {every!r}.")
        self.path = path
        self.every = every

    def __repr__(self) -> str:
        return f"Checkpoint({os.fspath(self.path)!r}, every={self.every!r})"

    def keeper(self, estimator: Any, solver: Solver, problem: Problem, seed: int, n_jobs: int) -> "FitKeeper":
        return FitKeeper(self, estimator, solver, problem, seed, n_jobs)


class FitKeeper(Keeper):
    """The keeper of one fit, and of all its parts. `seed` is that of the fit that began."""

    def __init__(self, checkpoint: Checkpoint, estimator: Any, solver: Solver, problem: Problem, seed: int, n_jobs: int):
        self.place, self.every = Path(checkpoint.path), checkpoint.every
        self.problem, self.own_jobs = problem, n_jobs
        parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name not in FREE}
        if not isinstance(parameters.get("random_state"), int):
            parameters.pop("random_state", None)  # the seed is the checkpoint's
        self.parameters = {name: parameter_fingerprint(name, value) for name, value in (parameters | {"solver": solver}).items()}
        self.name, self.seed = type(estimator).__name__, seed
        self.data: str | None = None  # the fingerprint, known once there is a file
        self.before: dict[str, RunState] = {}  # parts that an earlier process left
        self.states: dict[str, RunState] = {}  # as they are to be written
        self.lock, self.rounds = threading.Lock(), 0
        if os.path.exists(self.place):
            self.read()
            if estimator.verbose:
                print(f"{self.name}: resumed from the checkpoint {self.place}.", file=sys.stderr)
        self.begin, self.spent = time.monotonic(), 0.0  # seconds: since when, and in files
        self.next = self.begin + self.every
        self.whole = PartKeeper(self, WHOLE_FIT, False)

    # ---- what there was -------------------------------------------------------------------------------------

    def read(self) -> None:
        manifest, arrays = read_stored(self.place, CHECKPOINT)
        with self.taking_up():
            if manifest.get("scheme") != SCHEME:
                raise ModelFileError(self.refusal("another version of maxmargin"))
            told = manifest["parameters"]
            others = [name for name in sorted(told.keys() | self.parameters) if told.get(name) != self.parameters.get(name)]
            if manifest["estimator"] != self.name:
                raise ModelFileError(self.refusal(f"a {manifest['estimator']}"))
            if others:
                raise ModelFileError(self.refusal(f"a {manifest['estimator']} with other parameters ({', '.join(others)})"))
            self.data = fingerprint(self.problem)
            if manifest["data"] != self.data:
                raise ModelFileError(self.refusal("other data"))
            restorer = Restorer(arrays, {})
            self.before = {name: restorer.mapping(nodes) for name, nodes in manifest["states"].items()}
            self.states = {name: state for name, state in self.before.items() if name != WHOLE_FIT}
            self.seed, self.n_jobs = int(manifest["seed"]), int(manifest["n_jobs"])
            elsewhere = told_apart(manifest["origin"], origin(), self.n_jobs, self.own_jobs)
        if elsewhere:
            self.elsewhere = True
            warnings.warn(
                f"{self.place} was left by a fit with {elsewhere}: this one goes on from its duals, to another model than that "
                "one would have ended with, as good by its certificate.",
                UserWarning,
                stacklevel=2,
            )

    def refusal(self, whose: str) -> str:
        return f"{self.place} is the checkpoint of {whose}, not of this fit: delete it, or give Checkpoint another path."

    def taking_up(self) -> AbstractContextManager[None]:
        return damage_told(self.place)

    def found(self) -> RunState | None:
        return self.whole.found()

    # ---- what there is --------------------------------------------------------------------------------------

    def offer(self, state: Callable[[], RunState], ended: bool = False) -> None:
        self.whole.offer(state, ended)

    def part(self, name: str, to_the_end: bool) -> "PartKeeper":
        return PartKeeper(self, name, to_the_end)

    def write(self) -> None:
        """All parts as they are known; somebody has the lock."""
        if self.data is None:
            self.data = fingerprint(self.problem)
        describer = Describer()
        states = {
            part: {name: describer.node(value, f"{part}.{name}", True) for name, value in state.items()}
            for part, state in self.states.items()
        }
        manifest = {
            "estimator": self.name,
            "parameters": self.parameters,
            "scheme": SCHEME,
            "data": self.data,
            "seed": self.seed,
            "n_jobs": self.own_jobs,
            "origin": origin(),
            "states": states,
        }
        write_stored(self.place, CHECKPOINT, manifest, describer.finished(), scratch=f".{self.place.name}.part")

    def wait(self, begin: float, end: float) -> None:
        """After a file that took this long: the next one is due when all of them, it included, are a hundredth of the fit."""
        took = end - begin
        self.spent += took
        self.rounds += 1
        self.next = max(end + max(self.every, SELDOM * took), self.begin + SELDOM * (self.spent + took))

    def finish(self, converged: bool) -> None:
        """The fit is over; one that has reached its target is not gone on with."""
        if not converged:
            return
        try:
            self.place.unlink()
        except OSError as error:
            if os.path.exists(self.place):
                warnings.warn(
                    f"The fit has reached its target, but its checkpoint {self.place} cannot be removed: {why(error)}.",
                    UserWarning,
                    stacklevel=2,
                )


class PartKeeper(Keeper):
    """The keeper of one run of a fit."""

    def __init__(self, fit: FitKeeper, name: str, to_the_end: bool):
        self.fit, self.name, self.to_the_end, self.round = fit, name, to_the_end, fit.rounds
        self.elsewhere, self.n_jobs = fit.elsewhere, fit.n_jobs

    def found(self) -> RunState | None:
        """That of a fit of one run is taken up at once: it is as large as the run, and not held any longer."""
        return self.fit.before.pop(self.name, None) if self.name == WHOLE_FIT else self.fit.before.get(self.name)

    def part(self, name: str, to_the_end: bool) -> "PartKeeper":
        return self.fit.part(f"{self.name}, {name}", to_the_end)

    def taking_up(self) -> AbstractContextManager[None]:
        return self.fit.taking_up()

    def offer(self, state: Callable[[], RunState], ended: bool = False) -> None:
        """Others may be under way at the same time: where one of them has written, this state is taken for the next file."""
        fit, begin = self.fit, time.monotonic()
        due = begin >= fit.next
        if not (due or ended or self.round < fit.rounds):
            return
        with fit.lock:
            fit.states[self.name] = state()
            self.round = fit.rounds
            if not due or begin < fit.next:
                return
            try:
                fit.write()
            except ModelFileError as error:
                warnings.warn(f"No checkpoint was written: {error}", UserWarning, stacklevel=2)
            if self.name == WHOLE_FIT:
                fit.states.clear()  # as large as the run itself
            fit.wait(begin, time.monotonic())
            self.round = fit.rounds


def parameter_fingerprint(name: str, value: Any) -> str:
    try:
        return fingerprint(value)
    except ModelFileError as error:
        raise ModelFileError(f"Checkpoint and the parameter {name}: {error}") from None


def origin() -> dict[str, str]:
    """What has to be the same for the same bits; versions of a package under development may have other code."""
    return versions(*BITS_OF) | {"code": STAMP[:12], "machine": platform.machine()}


def told_apart(before: dict[str, str], now: dict[str, str], jobs_before: int, jobs: int) -> str:
    """What is different, in words."""
    found = [f"{name} {before.get(name)} (here {value})" for name, value in now.items() if before.get(name) != value]
    if jobs_before != jobs:
        found.append(f"n_jobs={jobs_before} (here {jobs})")
    return ", ".join(found)
