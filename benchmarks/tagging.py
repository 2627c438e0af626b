"""How good sequence models are, and python-crfsuite beside them: time to train and accuracy on words never seen."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import maxmargin as mm

from .report import Report, figure, table, without
from .sequences import Samples, chunk_f1, conll, ocr_attributes, ocr_words, token_accuracy
from .workloads import MissingDataError

OCR_GRID = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
CONLL_GRID = (0.01, 0.03, 0.1, 0.3)
HELD_OUT = 10  # every tenth training sentence is held out to choose C
MARGIN = 0.06  # by how much the chain must beat single letters
ALGORITHMS = {"averaged perceptron": "ap", "L-BFGS": "lbfgs"}
HEAD = ["model", "C", "train s", "test accuracy"]
SECONDS = "Seconds are processor time of one thread; those of crfsuite are its training alone, ours include reading the samples."


@dataclass(frozen=True)
class Score:
    name: str
    C: float | None
    seconds: float
    accuracy: float
    f1: float | None = None

    def row(self) -> list[str]:
        found = [self.name, "" if self.C is None else f"{self.C:g}", figure(self.seconds), f"{self.accuracy:.4f}"]
        return found if self.f1 is None else [*found, f"{self.f1:.4f}"]


def told(score: Score) -> Score:
    print(", ".join(text for text in score.row() if text), flush=True)
    return score


def fitted(model: mm.StructuredSVM, X: Any, y: Any) -> float:
    """Fit, after a first fit that compiles; returns the seconds."""
    small = slice(0, max(2, min(len(y), 30)))
    mm.StructuredSVM(model.structure, model.C, tol=0.5, random_state=0).fit(X[small], y[small])
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start


def best_of(structure: Any, grid: Sequence[float], train: tuple[Any, Any], validation: tuple[Any, Any], tol: float) -> float:
    """The C of the grid with the best accuracy on the validation part"""
    models = mm.StructuredSVM(structure, tol=tol, random_state=0).regularization_path(*train, grid)
    return max(models, key=lambda model: model.score(*validation)).C


def crfsuite(train: Samples, test: Samples, algorithm: str) -> tuple[float, list[list[str]]] | None:
    """Seconds of training and the predictions, with default settings; None where it is not installed"""
    try:
        import pycrfsuite
    except ImportError:
        return None
    assert train.attributes is not None and test.attributes is not None
    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    for names, tags in zip(train.attributes, train.y, strict=True):
        trainer.append(names, [str(tag) for tag in tags])
    with TemporaryDirectory() as folder:
        file = os.path.join(folder, "model")
        start = time.process_time()
        trainer.train(file)
        seconds = time.process_time() - start
        tagger = pycrfsuite.Tagger()
        tagger.open(file)
        guesses = [tagger.tag(names) for names in test.attributes]
        tagger.close()
    return seconds, guesses


def peers(train: Samples, test: Samples, chunked: bool) -> list[Score]:
    scores = []
    for name, algorithm in ALGORITHMS.items():
        found = crfsuite(train, test, algorithm)
        if found is None:
            print(f"\nskipped crfsuite: {without('pycrfsuite')}", flush=True)
            break
        truth = [[str(tag) for tag in tags] for tags in test.y]
        f1 = chunk_f1(truth, found[1]) if chunked else None
        scores.append(told(Score(f"crfsuite, {name}", None, found[0], token_accuracy(truth, found[1]), f1)))
    return scores


# ---- handwritten words -----------------------------------------------------------------------------------


def letters(words: Samples) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(words.X), np.concatenate(words.y)


def ocr(report: Report, quick: bool) -> None:
    parts = [ocr_words(folds, quick) for folds in ([0], [1], range(2, 10))]
    train, validation, test = (Samples(part.X, part.y, ocr_attributes(part)) for part in parts)
    scores = []
    single = [letters(part) for part in (train, validation, test)]
    whole = [(part.X, part.y) for part in (train, validation, test)]
    for name, structure, sets in (
        ("single letters (Multiclass)", mm.structures.Multiclass(n_classes=26), single),
        ("words (Chain)", mm.structures.Chain(n_labels=26), whole),
    ):
        C = best_of(structure, OCR_GRID, sets[0], sets[1], 1e-3)
        model = mm.StructuredSVM(structure, C, random_state=0)
        seconds = fitted(model, *sets[0])
        scores.append(told(Score(name, C, seconds, model.score(*sets[2]))))
    gain = scores[1].accuracy - scores[0].accuracy
    scores += peers(train, test, chunked=False)
    state = "holds" if gain >= MARGIN else "FAILS"
    text = f"Trained on fold 0 ({len(train)} words), C of {', '.join(f'{C:g}' for C in OCR_GRID)} chosen on fold 1 "
    text += f"({len(validation)} words), tested on folds 2 to 9 ({len(test)} words); tol = 1e-3. {SECONDS}"
    verdict = f"- The chain at least 6 points above single letters: {state} ({100 * gain:.1f} points)."
    report.section("structured: ocr, accuracy", "\n\n".join([text, table(HEAD, [score.row() for score in scores]), verdict]))


# ---- chunking --------------------------------------------------------------------------------------------


def chunking(report: Report, quick: bool) -> None:
    train, test = conll(quick)
    out = range(0, len(train), HELD_OUT)
    kept = train.part(i for i in range(len(train)) if i % HELD_OUT)
    held = train.part(out)
    structure = mm.structures.Chain()
    known = {tag for tags in kept.y for tag in tags}
    fit_for = [i for i in range(len(held)) if known.issuperset(held.y[i])]  # a tag may occur in held-out sentences only
    held = held.part(fit_for)
    C = best_of(structure, CONLL_GRID, (kept.X, kept.y), (held.X, held.y), 1e-2)
    scores = []
    for tol in (1e-2, 1e-3):
        model = mm.StructuredSVM(structure, C, tol=tol, random_state=0)
        seconds = fitted(model, train.X, train.y)
        guess = model.predict(test.X)
        scores.append(told(Score(f"Chain, tol = {tol:g}", C, seconds, token_accuracy(test.y, guess), chunk_f1(test.y, guess))))
    scores += peers(train, test, chunked=True)
    text = f"{len(train)} sentences, {train.X[0].shape[1]} indicator features seen more than once, {len(known)} tags; C of "
    text += f"{', '.join(f'{C:g}' for C in CONLL_GRID)} chosen on every tenth training sentence; "
    text += f"{len(test)} test sentences. {SECONDS}"
    found = table([*HEAD, "chunk F1"], [score.row() for score in scores])
    report.section("structured: conll2000, accuracy", "\n\n".join([text, found]))


def run(report: Report, workloads: Sequence[str], quick: bool) -> None:
    with threadpool_limits(1):
        for name, work in (("ocr", ocr), ("conll2000", chunking)):
            if name in workloads:
                try:
                    work(report, quick)
                except MissingDataError as missing:
                    print(f"\nskipped structured: {missing}", flush=True)
