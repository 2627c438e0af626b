"""Chunking from names of features to F1, beside CRFsuite: reading the features is counted on both sides. And one sentence alone.

    python -m benchmarks.sentences [--quick] [--C 0.1]

C is given, not searched: `python -m benchmarks structured` chooses it on held-out sentences. Each model is trained in a process
of its own, so that its largest memory can be told: what it adds to that of the sentences, with what compiling takes.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from tempfile import TemporaryDirectory

from threadpoolctl import threadpool_limits

import maxmargin as mm

from .report import table
from .sequences import CONLL_QUICK, chunk_f1, conll_sentences, token_accuracy, token_attributes

Tokens = list[list[list[str]]]
Tags = list[list[str]]
PEERS = {"averaged perceptron": "ap", "passive aggressive": "pa", "L-BFGS": "lbfgs"}
WARM = 30  # sentences of a first fit, which compiles
CALLS = 300  # sentences decoded one by one


def read(quick: bool) -> tuple[tuple[Tokens, Tags], tuple[Tokens, Tags]]:
    """Training and test sentences, with the features that training has more than once"""
    parts = [conll_sentences(part)[: CONLL_QUICK if quick else None] for part in ("train", "test")]
    named = [[[token_attributes(s, t) for t in range(len(s))] for s in part] for part in parts]
    seen = Counter(name for sentence in named[0] for token in sentence for name in token)
    kept = [[[[name for name in token if seen[name] > 1] for token in s] for s in part] for part in named]
    tags = [[[tag for _, _, tag in sentence] for sentence in part] for part in parts]
    return (kept[0], tags[0]), (kept[1], tags[1])


def ours(train: tuple[Tokens, Tags], test: Tokens, C: float, tol: float, rules: str | None) -> tuple[float, Tags, float]:
    """Seconds from names of features to a model, predictions, and milliseconds for one sentence, features read beforehand"""
    structure = mm.structures.Chain(forbidden=rules)

    def fitted(names: Tokens, tags: Tags) -> tuple[mm.SequenceVectorizer, mm.StructuredSVM]:
        vectorizer = mm.SequenceVectorizer()
        return vectorizer, mm.StructuredSVM(structure, C, tol=tol, random_state=0).fit(vectorizer.fit_transform(names), tags)

    fitted(train[0][:WARM], train[1][:WARM])
    start = time.process_time()
    vectorizer, model = fitted(*train)
    seconds = time.process_time() - start
    X = vectorizer.transform(test)
    guess = model.predict(X)
    for x in X[:CALLS]:  # each length has a first call
        model.predict([x])
    start = time.process_time()
    for x in X[:CALLS]:
        model.predict([x])
    return seconds, guess, (time.process_time() - start) / len(X[:CALLS]) * 1e3


def crfsuite(train: tuple[Tokens, Tags], test: Tokens, algorithm: str) -> tuple[float, Tags, float]:
    """The same of CRFsuite with its default settings; a sentence is one call with names of features"""
    import pycrfsuite

    start = time.process_time()
    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    for names, tags in zip(*train, strict=True):
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


def one(name: str, quick: bool, C: float) -> list[str]:
    train, (names, tags) = read(quick)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with threadpool_limits(1):
        if name in PEERS:
            seconds, guess, each = crfsuite(train, names, PEERS[name])
        else:
            seconds, guess, each = ours(train, names, C, float(name.split()[1]), "iob" if "iob" in name else None)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    row = [f"{seconds:.2f}", f"{token_accuracy(tags, guess):.4f}", f"{chunk_f1(tags, guess):.4f}", f"{each:.3f}", f"{memory:.0f}"]
    return [name, *row]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help=f"{CONLL_QUICK} sentences")
    parser.add_argument("--C", type=float, default=0.1)
    parser.add_argument("--model", help="one model only, in this process")
    args = parser.parse_args()
    if args.model:
        print("\t".join(one(args.model, args.quick, args.C)))
        return
    rows = []
    for name in ("tol 1e-1", "tol 1e-2", "tol 1e-2 iob", *PEERS):
        command = [sys.executable, "-m", "benchmarks.sentences", "--model", name, "--C", str(args.C), *["--quick"] * args.quick]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"skipped {name}: {done.stderr.strip().splitlines()[-1]}", flush=True)
            continue
        rows.append(done.stdout.strip().splitlines()[-1].split("\t"))
        print(", ".join(rows[-1]), flush=True)
    head = ["model", "features and training, s", "accuracy", "chunk F1", "one sentence, ms", "memory over the sentences, MB"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
