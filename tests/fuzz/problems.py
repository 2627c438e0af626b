"""All kinds of problems, and one of them from a seed and a number."""

import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from . import forms, kernels, linear, others, selection, structured, tight
from .checks import Report, strict
from .draws import Draw
from .order import kind_of

KINDS: dict[str, Callable[[Draw, Report], None]] = {
    "binary": partial(linear.run, make=linear.binary),
    "multiclass": partial(linear.run, make=linear.multiclass),
    "topk": partial(linear.run, make=linear.topk),
    "regression": partial(linear.run, make=linear.regression),
    "multilabel": partial(linear.run, make=linear.multilabel),
    "forms": partial(linear.run, make=forms.task),
    "kernel": kernels.several,
    "kernel, one target": kernels.single,
    "structured": structured.run,
    "latent": others.latent,
    "latent structured": structured.latent,
    "explicit": others.explicit,
    "minimize": others.own_risk,
    "zero-shot": others.zero_shot,
    "search": selection.search,
    "probability": selection.probability,
    "tight": tight.run,
}


class Outcome(NamedTuple):
    kind: str
    findings: list[str]
    left_out: list[str]
    notes: dict[str, Any]


def solved(seed: int, number: int, quick: bool = False, kind: str | None = None) -> Outcome:
    """Draw the problem with this number, solve and check it. Whatever is raised is a finding: what is drawn is valid.
    `kind` asks for one of this kind, whatever the number."""
    kind = kind or kind_of(number)
    draw, report = Draw(np.random.default_rng([seed, number]), quick), Report()
    try:
        with strict():
            KINDS[kind](draw, report)
    except Exception as error:  # whatever it is: the problems drawn are valid, so that any exception is a finding
        where = traceback.extract_tb(error.__traceback__)[-1]
        report.findings.append(f"{type(error).__name__}: {error} ({where.filename.rsplit('/', 2)[-1]}:{where.lineno})")
        draw.note(traceback=traceback.format_exc())
    return Outcome(kind, report.findings, draw.left_out, draw.notes)
