"""How the benchmark of sentences reads chunks and counts F1, against definitions written anew."""

from itertools import groupby

import numpy as np

from benchmarks.sentences import runs
from benchmarks.sequences import chunk_f1, chunks

KINDS = ("NP", "VP")


def chunks_by_hand(tags):
    """A chunk begins at B-X, and at I-X where no X goes on; it ends before the next tag that is not I-X."""
    found = set()
    for t, tag in enumerate(tags):
        before = tags[t - 1][2:] if t else ""
        if tag == "O" or (tag[0] == "I" and before == tag[2:]):
            continue
        inside = [other == f"I-{tag[2:]}" for other in tags[t + 1 :]] + [False]
        found.add((t, t + 1 + inside.index(False), tag[2:]))
    return found


def segments_by_hand(tags):
    """Runs of one structure that is not neither"""
    found, at = set(), 0
    for structure, members in groupby(tags):
        size = len(list(members))
        if structure != "_":
            found.add((at, at + size, structure))
        at += size
    return found


def f1_by_hand(truth, guess, read):
    """The harmonic mean of precision and recall, over the chunks of all sequences"""
    wanted, given = ({(i, *chunk) for i, tags in enumerate(all_tags) for chunk in read(tags)} for all_tags in (truth, guess))
    precision, recall = (len(wanted & given) / len(chosen) for chosen in (given, wanted))
    return 2.0 * precision * recall / (precision + recall)


def drawn(tags, seed):
    """Tags that often stay the same, and a guess that is mostly right"""
    rng = np.random.default_rng(seed)
    truth = [[tags[k] for k in np.repeat(rng.integers(len(tags), size=12), rng.integers(1, 4, size=12))] for _ in range(40)]
    return truth, [[tag if rng.random() < 0.8 else tags[rng.integers(len(tags))] for tag in row] for row in truth]


def test_chunks_of_sentences():
    truth, guess = drawn(["O", *(f"{mark}-{kind}" for mark in "BI" for kind in KINDS)], 0)
    for tags in (*truth, *guess):
        assert chunks(tags) == chunks_by_hand(tags)
    assert 0.3 < chunk_f1(truth, guess) < 1.0
    assert np.isclose(chunk_f1(truth, guess), f1_by_hand(truth, guess, chunks_by_hand), rtol=1e-14)


def test_segments_of_proteins():
    truth, guess = drawn(["_", "h", "e"], 1)
    for tags in (*truth, *guess):
        assert chunks(runs(tags)) == segments_by_hand(tags)
    found = chunk_f1([runs(tags) for tags in truth], [runs(tags) for tags in guess])
    assert 0.1 < found < 1.0
    assert np.isclose(found, f1_by_hand(truth, guess, segments_by_hand), rtol=1e-14)
