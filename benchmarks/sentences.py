"""Tagging from names of features to F1, beside CRFsuite: reading the features is counted on both sides. And one sequence alone.

    python -m benchmarks.sentences [--set conll2000 proteins] [--model 1e-1 1e-2 iob ap pa lbfgs] [--limit SECONDS] [--json FILE]
                                   [--C C] [--quick] [--choose] [--memory] [--each]

conll2000 are sentences cut into chunks, proteins sequences of residues that belong to helices, sheets or neither; a run of
residues in one structure is a chunk there. C is given, not searched: that of conll2000 was chosen by `python -m benchmarks
structured`, that of proteins by --choose, both on training sequences held out. Each model is trained in a process of its own,
told as soon as it has ended, and stopped after --limit seconds. Its largest memory is what it adds to that of the sequences: all
of it, and apart from that what a first fit to a few sequences takes, which is compiled code that was loaded (or made, where the
cache was empty: run it twice). --memory says where ours goes, stage by stage. --each measures one sentence of conll2000 from its
tokens to its tags, step by step, and how long all take as dicts, beside scikit-learn's DictVectorizer.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from sklearn.feature_extraction import DictVectorizer
from threadpoolctl import threadpool_limits

import maxmargin as mm

from .measure import PeakMemory, release_memory
from .report import Report, table, without
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
OURS = {"1e-1": "tol 1e-1", "1e-2": "tol 1e-2", "iob": "tol 1e-2 iob"}
# L-BFGS with its own rule of stopping goes on for many minutes on conll2000; the others stop after 100 iterations by themselves.
PEERS: dict[str, tuple[str, dict[str, int]]] = {
    "ap": ("CRFsuite, averaged perceptron", {}),
    "pa": ("CRFsuite, passive aggressive", {}),
    "lbfgs": ("CRFsuite, L-BFGS, 100 iterations", {"max_iterations": 100}),
}
MODELS = OURS | {key: name for key, (name, _) in PEERS.items()}
LIMIT = 570.0  # seconds for one model
MEGABYTE = 2**20
WARM = 30  # sequences of a first fit, which compiles
CALLS = 300  # sequences decoded one by one
HELD_OUT = 5  # every fifth training sequence judges a C
GRID = (0.003, 0.01, 0.03, 0.1, 0.3)
HEAD = ["model", "features and training, s", "accuracy", "F1", "one sequence, ms", "memory, MB", "of it compiled code"]


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
    "conll2000": Corpus(conll_sentences, token_attributes, list, 0.1, ("1e-1", "1e-2", "iob")),
    "proteins": Corpus(proteins, residue_attributes, runs, 0.03, ("1e-1", "1e-2")),
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


def one_by_one(call: Callable[[Any], Any], sequences: list, repeat: int = 5) -> float:
    """Milliseconds for one sequence, in the mean, the best of some rounds; the first round of all does not count"""
    rounds = []
    for _ in range(repeat + 1):
        start = time.process_time()
        for sequence in sequences:
            call(sequence)
        rounds.append((time.process_time() - start) / len(sequences) * 1e3)
    return min(rounds[1:])


def each_step(quick: bool) -> str:
    """One sentence of conll2000 from tokens to tags, and all sentences from dicts to matrices"""
    train, test = (conll_sentences(part)[: CONLL_QUICK if quick else None] for part in ("train", "test"))

    def described(sentence: Any) -> list[dict[str, str]]:
        return [dict(name.split("=", 1) for name in token_attributes(sentence, t)) for t in range(len(sentence))]

    dicts = [described(sentence) for sentence in train]
    flat = [position for sentence in dicts for position in sentence]
    best: dict[str, float] = {}
    for vectorizer, given in [(DictVectorizer(), flat), (mm.SequenceVectorizer(), dicts)] * 3:
        for step in ("fit_transform", "transform"):
            start = time.process_time()
            X = getattr(vectorizer, step)(given)
            name = f"{type(vectorizer).__name__}.{step}"
            best[name] = min(best.get(name, float("inf")), time.process_time() - start)
    tags = [[token[-1] for token in sentence] for sentence in train]
    model = mm.StructuredSVM("chain", 0.1, tol=0.1, random_state=0).fit(X, tags)
    few = test[:CALLS]
    known = [described(sentence) for sentence in few]
    rows = [vectorizer.transform([sentence]) for sentence in known]
    steps = {
        "dicts of tokens": one_by_one(described, few),
        "rows of dicts": one_by_one(lambda sentence: vectorizer.transform([sentence]), known),
        "tags of rows": one_by_one(model.predict, rows),
        "tags of dicts": one_by_one(lambda sentence: model.predict(vectorizer.transform([sentence])), known),
        "tags of tokens": one_by_one(lambda sentence: model.predict(vectorizer.transform([described(sentence)])), few),
    }
    length = sum(map(len, few)) / len(few)
    told = [f"{len(flat)} positions, {X[0].shape[1]} features, {length:.1f} positions a sentence; processor time"]
    told += [f"{name}: {seconds:.2f} s" for name, seconds in best.items()]
    return "\n".join(told + [f"{name}, one sentence: {milliseconds:.3f} ms" for name, milliseconds in steps.items()])


class Learned(NamedTuple):
    """Seconds from names of features to a model, predictions, milliseconds for one sequence, and bytes of compiled code."""

    seconds: float
    guess: Tags
    each: float
    compiled: int = 0


def ours(train: Samples, test: Tokens, C: float, key: str, memory: PeakMemory) -> Learned:
    """The memory after each stage goes to stderr."""
    structure = mm.structures.Chain(forbidden="iob" if key == "iob" else None)
    new = mm.StructuredSVM(structure, C, tol=0.1 if key == "1e-1" else 0.01, random_state=0)
    few = train.every(lambda i: i < WARM)
    mm.StructuredSVM(structure, C, tol=0.1, random_state=0).fit(mm.SequenceVectorizer().fit_transform(few.names), few.tags)
    tell("compiled", memory)
    compiled = memory.growth()
    release_memory()
    start = time.process_time()
    vectorizer = mm.SequenceVectorizer()
    X = vectorizer.fit_transform(train.names)
    tell("features read", memory)
    model = new.fit(X, train.tags)
    seconds = time.process_time() - start
    tell("fitted", memory)
    guess = model.predict(vectorizer.transform(test))
    each = one_by_one(lambda names: model.predict(vectorizer.transform([names])), test[:CALLS], 1)
    tell("predicted", memory)
    return Learned(seconds, guess, each, compiled)


def crfsuite(train: Samples, test: Tokens, key: str) -> Learned:
    """The same of CRFsuite with its default settings; a sequence is one call with names of features"""
    import pycrfsuite

    start = time.process_time()
    trainer = pycrfsuite.Trainer(algorithm=key, params=PEERS[key][1], verbose=False)
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
    return Learned(seconds, guess, each)


def one(corpus: Corpus, key: str, quick: bool) -> dict[str, Any]:
    """The figures of one model, in this process"""
    imported = PeakMemory().before
    train, test = read(corpus, quick)
    release_memory()
    memory = PeakMemory()
    sizes = [f"{size / MEGABYTE:.0f} MB" for size in (imported, memory.before)]
    print(f"imported {sizes[0]}, with sequences {sizes[1]}; above that", end=" ", file=sys.stderr)
    with threadpool_limits(1):
        peer = key in PEERS
        found = crfsuite(train, test.names, key) if peer else ours(train, test.names, corpus.C, key, memory)
    tell("at the end", memory)
    f1 = chunk_f1([corpus.spans(tags) for tags in test.tags], [corpus.spans(tags) for tags in found.guess])
    return {
        "model": MODELS[key],
        "seconds": found.seconds,
        "accuracy": token_accuracy(test.tags, found.guess),
        "f1": f1,
        "one_ms": found.each,
        "memory_mb": memory.growth() / MEGABYTE,
        "compiled_mb": found.compiled / MEGABYTE,
    }


def row(found: dict[str, Any]) -> list[str]:
    forms = {"seconds": ".2f", "accuracy": ".4f", "f1": ".4f", "one_ms": ".3f", "memory_mb": ".0f", "compiled_mb": ".0f"}
    return [found["model"], *(format(found[name], form) for name, form in forms.items())]


def choose(corpus: Corpus, quick: bool) -> str:
    """Accuracies on training sequences held out, for each C"""
    samples, _ = read(corpus, quick)
    kept, held = samples.every(lambda i: i % HELD_OUT > 0), samples.every(lambda i: i % HELD_OUT == 0)
    vectorizer = mm.SequenceVectorizer()
    model = mm.StructuredSVM("chain", tol=1e-2, random_state=0)
    path = model.regularization_path(vectorizer.fit_transform(kept.names), kept.tags, GRID)
    X = vectorizer.transform(held.names)
    return ", ".join(f"C = {step.C:g}: {token_accuracy(held.tags, step.predict(X)):.4f}" for step in path)


@dataclass(frozen=True)
class Options:
    """What to measure: which models (none named: all), for how long each, and where the figures go besides."""

    quick: bool = False
    models: tuple[str, ...] = ()
    limit: float = LIMIT
    C: float | None = None
    memory: bool = False
    figures: Path | None = None


def measured(name: str, key: str, C: float, options: Options) -> dict[str, Any] | None:
    """The figures of one model, from a process of its own, told as soon as they are there; None, and why, where there are none"""
    command = [sys.executable, "-m", "benchmarks.sentences", "--set", name, "--here", key, "--C", str(C)]
    command += ["--quick"] * options.quick
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=options.limit)
    except subprocess.TimeoutExpired:
        print(f"{name}: {MODELS[key]} was stopped after {options.limit:g} s", flush=True)
        return None
    told = done.stderr.strip().splitlines()
    if done.returncode:
        print(f"{name}: skipped {MODELS[key]}: {told[-1] if told else f'exit status {done.returncode}'}", flush=True)
        return None
    found: dict[str, Any] = {"set": name, "C": C, **json.loads(done.stdout.strip().splitlines()[-1])}
    print(f"{name}: {', '.join(row(found))}", *(f"({line})" for line in told[-1:] if options.memory), flush=True)
    return found


def run(report: Report, sets: Sequence[str], options: Options) -> None:
    every: list[dict[str, Any]] = []
    if missing_peer := without("pycrfsuite"):
        print(f"\nskipped CRFsuite: {missing_peer}", flush=True)
    for name in sets:
        corpus = SETS[name] if options.C is None else replace(SETS[name], C=options.C)
        try:
            train, test = read(corpus, options.quick)
        except MissingDataError as missing:
            print(f"\nskipped sentences: {missing}", flush=True)
            continue
        tags = len({tag for sequence in train.tags for tag in sequence})
        text = f"{len(train.tags)} sequences to learn from, {len(test.tags)} to test on, {tags} tags, C = {corpus.C:g}; features "
        text += "that training has once are left out; processor seconds of one thread, reading features counted, compiling not."
        text += " Memory is the largest of the process above that with the sequences."
        del train, test
        rows = []
        for key in (*corpus.models, *(() if missing_peer else PEERS)):
            found = measured(name, key, corpus.C, options) if not options.models or key in options.models else None
            if found is not None:
                rows.append(row(found))
                every.append(found)
            if options.figures is not None:
                options.figures.write_text(json.dumps(every, indent=1))
        report.section(f"sentences: {name}", "\n\n".join([text, table(HEAD, rows)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--set", nargs="+", choices=list(SETS), default=list(SETS), metavar="NAME", help=", ".join(SETS))
    names = "; ".join(f"{key}: {name}" for key, name in MODELS.items())
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=[], metavar="NAME", help=names)
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS", help=f"for each model ({LIMIT:g})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the figures, too, written anew after each model")
    parser.add_argument("--quick", action="store_true", help=f"{CONLL_QUICK} sequences")
    parser.add_argument("--C", type=float, help=", ".join(f"{key}: {corpus.C:g}" for key, corpus in SETS.items()))
    parser.add_argument("--here", choices=list(MODELS), help="one model only, in this process; its figures as JSON")
    parser.add_argument("--choose", action="store_true", help=f"judge C of {GRID} on every fifth training sequence, and no more")
    parser.add_argument("--memory", action="store_true", help="the largest memory after each stage, too")
    parser.add_argument("--each", action="store_true", help="one sentence from tokens to tags, and no more")
    args = parser.parse_args()
    if args.each:
        print(each_step(args.quick))
        return
    if args.here or args.choose:
        for key in args.set:
            corpus = SETS[key] if args.C is None else replace(SETS[key], C=args.C)
            print(choose(corpus, args.quick) if args.choose else json.dumps(one(corpus, args.here, args.quick)))
        return
    run(Report(None), args.set, Options(args.quick, tuple(args.model), args.limit, args.C, args.memory, args.json))


if __name__ == "__main__":
    main()
