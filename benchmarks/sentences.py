"""Tagging from names of features to F1, beside CRFsuite: reading the features is counted on both sides. And one sequence alone.

    python -m benchmarks.sentences [--set conll2000 proteins] [--C C] [--quick] [--choose] [--memory]

conll2000 are sentences cut into chunks, proteins sequences of residues that belong to helices, sheets or neither. C is given, not
searched: that of conll2000 was chosen by `python -m benchmarks structured`, that of proteins by --choose, both on training
sequences held out. Each model is trained in a process of its own, so that its largest memory can be told: what it adds to that of
the sequences, with what compiling takes. --memory says where ours goes, stage by stage.
"""

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

from threadpoolctl import threadpool_limits

import maxmargin as mm

from .measure import PeakMemory, release_memory
from .report import Report, table
from .sequences import (
    CONLL_QUICK,
    chunk_f1,
    conll_sentences,
    proteins,
    residue_attributes,
    token_accuracy,
    token_attributes,
)
from .workloads import MissingDataError

Tokens = list[list[list[str]]]
Tags = list[list[str]]
# L-BFGS with its own rule of stopping goes on for many minutes on conll2000; the others stop after 100 iterations by themselves.
PEERS: dict[str, tuple[str, dict[str, int]]] = {
    "CRFsuite, averaged perceptron": ("ap", {}),
    "CRFsuite, passive aggressive": ("pa", {}),
    "CRFsuite, L-BFGS, 100 iterations": ("lbfgs", {"max_iterations": 100}),
}
MEGABYTE = 2**20
WARM = 30  # sequences of a first fit, which compiles
CALLS = 300  # sequences decoded one by one
HELD_OUT = 5  # every fifth training sequence judges a C
GRID = (0.003, 0.01, 0.03, 0.1, 0.3)
HEAD = ["model", "features and training, s", "accuracy", "F1", "one sequence, ms", "memory over the sequences, MB"]


@dataclass(frozen=True)
class Corpus:
    """Training and test sequences: names of features and tags. `spans` turns tags into those that F1 reads chunks from."""

    read: Callable[[str], list]
    attributes: Callable[[Any, int], list[str]]
    spans: Callable[[Sequence[str]], list[str]]
    C: float
    models: tuple[str, ...]


def runs(tags: Sequence[str]) -> list[str]:
    """A run of one structure is a chunk"""
    return ["O" if tag == "_" else f"I-{tag}" for tag in tags]


SETS = {
    "conll2000": Corpus(conll_sentences, token_attributes, list, 0.1, ("tol 1e-1", "tol 1e-2", "tol 1e-2 iob")),
    "proteins": Corpus(proteins, residue_attributes, runs, 0.03, ("tol 1e-1", "tol 1e-2")),
}


@dataclass(frozen=True)
class Samples:
    names: Tokens
    tags: Tags

    def every(self, kept: Callable[[int], bool]) -> "Samples":
        chosen = [i for i in range(len(self.tags)) if kept(i)]
        return Samples([self.names[i] for i in chosen], [self.tags[i] for i in chosen])


def read(corpus: Corpus, quick: bool) -> tuple[Samples, Samples]:
    """Training and test sequences, with the features that training has more than once"""
    parts = [corpus.read(part)[: CONLL_QUICK if quick else None] for part in ("train", "test")]
    named = [[[corpus.attributes(s, t) for t in range(len(s))] for s in part] for part in parts]
    seen = Counter(name for sequence in named[0] for token in sequence for name in token)
    kept = [[[[name for name in token if seen[name] > 1] for token in s] for s in part] for part in named]
    tags = [[[token[-1] for token in sequence] for sequence in part] for part in parts]
    return Samples(kept[0], tags[0]), Samples(kept[1], tags[1])


def tell(stage: str, memory: PeakMemory) -> None:
    print(f"{stage} {memory.growth() / MEGABYTE:.0f} MB", end=", ", file=sys.stderr)


def ours(train: Samples, test: Tokens, C: float, name: str, memory: PeakMemory) -> tuple[float, Tags, float]:
    """Seconds from names of features to a model, predictions, and milliseconds for one sequence, features read beforehand.
    The memory after each stage goes to stderr."""
    structure = mm.structures.Chain(forbidden="iob" if "iob" in name else None)
    new = mm.StructuredSVM(structure, C, tol=float(name.split()[1]), random_state=0)
    few = train.every(lambda i: i < WARM)
    mm.StructuredSVM(structure, C, tol=0.1, random_state=0).fit(mm.SequenceVectorizer().fit_transform(few.names), few.tags)
    tell("compiled", memory)
    start = time.process_time()
    vectorizer = mm.SequenceVectorizer()
    X = vectorizer.fit_transform(train.names)
    tell("features read", memory)
    model = new.fit(X, train.tags)
    seconds = time.process_time() - start
    tell("fitted", memory)
    X = vectorizer.transform(test)
    guess = model.predict(X)
    for x in X[:CALLS]:  # each length has a first call
        model.predict([x])
    start = time.process_time()
    for x in X[:CALLS]:
        model.predict([x])
    each = (time.process_time() - start) / len(X[:CALLS]) * 1e3
    tell("predicted", memory)
    return seconds, guess, each


def crfsuite(train: Samples, test: Tokens, name: str) -> tuple[float, Tags, float]:
    """The same of CRFsuite with its default settings; a sequence is one call with names of features"""
    import pycrfsuite

    algorithm, setting = PEERS[name]
    start = time.process_time()
    trainer = pycrfsuite.Trainer(algorithm=algorithm, params=setting, verbose=False)
    for names, tags in zip(train.names, train.tags, strict=True):
        trainer.append(names, tags)
    with TemporaryDirectory() as folder:
        file = os.path.join(folder, "model")
        trainer.train(file)
        seconds = time.process_time() - start
        tagger = pycrfsuite.Tagger()
        tagger.open(file)
        guess = [tagger.tag(names) for names in test]
        start = time.process_time()
        for names in test[:CALLS]:
            tagger.tag(names)
        each = (time.process_time() - start) / len(test[:CALLS]) * 1e3
        tagger.close()
    return seconds, guess, each


def one(corpus: Corpus, name: str, quick: bool) -> list[str]:
    """The row of one model, in this process"""
    imported = PeakMemory().before
    train, test = read(corpus, quick)
    release_memory()
    memory = PeakMemory()
    sizes = [f"{size / MEGABYTE:.0f} MB" for size in (imported, memory.before)]
    print(f"imported {sizes[0]}, with sequences {sizes[1]}; above that", end=" ", file=sys.stderr)
    with threadpool_limits(1):
        if name in PEERS:
            seconds, guess, each = crfsuite(train, test.names, name)
        else:
            seconds, guess, each = ours(train, test.names, corpus.C, name, memory)
    tell("at the end", memory)
    f1 = chunk_f1([corpus.spans(tags) for tags in test.tags], [corpus.spans(tags) for tags in guess])
    figures = [f"{seconds:.2f}", f"{token_accuracy(test.tags, guess):.4f}", f"{f1:.4f}", f"{each:.3f}"]
    return [name, *figures, f"{memory.growth() / MEGABYTE:.0f}"]


def choose(corpus: Corpus, quick: bool) -> str:
    """Accuracies on training sequences held out, for each C"""
    samples, _ = read(corpus, quick)
    kept, held = samples.every(lambda i: i % HELD_OUT > 0), samples.every(lambda i: i % HELD_OUT == 0)
    vectorizer = mm.SequenceVectorizer()
    model = mm.StructuredSVM("chain", tol=1e-2, random_state=0)
    path = model.regularization_path(vectorizer.fit_transform(kept.names), kept.tags, GRID)
    X = vectorizer.transform(held.names)
    return ", ".join(f"C = {step.C:g}: {token_accuracy(held.tags, step.predict(X)):.4f}" for step in path)


def run(report: Report, sets: Sequence[str], quick: bool, C: float | None = None, memory: bool = False) -> None:
    for key in sets:
        corpus = SETS[key] if C is None else replace(SETS[key], C=C)
        try:
            train, test = read(corpus, quick)
        except MissingDataError as missing:
            print(f"\nskipped sentences: {missing}", flush=True)
            continue
        rows = []
        for name in (*corpus.models, *PEERS):
            command = [sys.executable, "-m", "benchmarks.sentences", "--set", key, "--model", name, "--C", str(corpus.C)]
            command += ["--quick"] * quick
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"\nskipped {name}: {done.stderr.strip().splitlines()[-1]}", flush=True)
                continue
            rows.append(done.stdout.strip().splitlines()[-1].split("\t"))
            print(", ".join(rows[-1]), *(f"({line})" for line in done.stderr.splitlines()[-1:] if memory), flush=True)
        tags = len({tag for sequence in train.tags for tag in sequence})
        text = f"{len(train.tags)} sequences to learn from, {len(test.tags)} to test on, {tags} tags, C = {corpus.C:g}; features "
        text += (
            "that training has once are left out; processor seconds of one thread, reading of features counted, compiling not."
        )
        report.section(f"sentences: {key}", "\n\n".join([text, table(HEAD, rows)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--set", nargs="+", choices=list(SETS), default=list(SETS), metavar="NAME", help=", ".join(SETS))
    parser.add_argument("--quick", action="store_true", help=f"{CONLL_QUICK} sequences")
    parser.add_argument("--C", type=float, help=", ".join(f"{key}: {corpus.C:g}" for key, corpus in SETS.items()))
    parser.add_argument("--model", help="one model only, in this process")
    parser.add_argument("--choose", action="store_true", help=f"judge C of {GRID} on every fifth training sequence, and no more")
    parser.add_argument("--memory", action="store_true", help="the largest memory after each stage, too")
    args = parser.parse_args()
    if args.model or args.choose:
        for key in args.set:
            corpus = SETS[key] if args.C is None else replace(SETS[key], C=args.C)
            print(choose(corpus, args.quick) if args.choose else "\t".join(one(corpus, args.model, args.quick)))
        return
    run(Report(None), args.set, args.quick, args.C, args.memory)


if __name__ == "__main__":
    main()
