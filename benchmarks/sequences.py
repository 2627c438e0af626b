"""Structured data: handwritten words, chunked sentences, and two multiclass sets read as structures of a single label."""

import lzma
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import workloads
from .workloads import path

OCR_QUICK, CONLL_QUICK, ROWS_QUICK = 100, 150, 1_000  # samples with --quick


@dataclass(frozen=True)
class Samples:
    """Samples and their outputs; `attributes` are the names of the features of each node, for a peer that wants them so."""

    X: Any
    y: Any
    attributes: list[list[list[str]]] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def part(self, chosen: Iterable[int]) -> "Samples":
        at = list(chosen)
        if isinstance(self.X, np.ndarray):
            return Samples(self.X[at], self.y[at])
        names = None if self.attributes is None else [self.attributes[i] for i in at]
        return Samples([self.X[i] for i in at], [self.y[i] for i in at], names)


# ---- handwritten words -----------------------------------------------------------------------------------


def ocr_words(folds: Sequence[int], quick: bool = False) -> Samples:
    """The words of these folds of the OCR set (Taskar et al. 2004): 128 binary pixels a letter, 26 letters"""
    with np.load(path("ocr_letters", "ocr_letters.npz")) as data:
        pixels = np.unpackbits(data["pixels_packed"], axis=1).astype(np.float64)
        labels, start, fold = data["labels"].astype(np.int64), data["word_offsets"], data["fold"]
    chosen = [i for i in range(fold.size) if fold[i] in folds][: OCR_QUICK if quick else None]
    words = [slice(start[i], start[i + 1]) for i in chosen]
    return Samples([pixels[word] for word in words], [labels[word] for word in words])


def ocr_attributes(words: Samples) -> list[list[list[str]]]:
    """The same features by name: the pixels that are set, a bias, the ends of the word"""
    found = []
    for x in words.X:
        word = [["bias", *(f"p{j}" for j in np.flatnonzero(letter))] for letter in x]
        word[0].append("first")
        word[-1].append("last")
        found.append(word)
    return found


# ---- chunking --------------------------------------------------------------------------------------------

Sentence = list[tuple[str, str, str]]  # word, part of speech, chunk tag


def conll_sentences(part: str) -> list[Sentence]:
    with lzma.open(path("conll2000", f"{part}.txt.xz"), "rt", encoding="latin-1") as file:
        blocks = file.read().strip().split("\n\n")
    return [[tuple(line.split()) for line in block.splitlines()] for block in blocks]  # type: ignore[misc]  # three words a line


def shape(word: str) -> str:
    """Capitals, small letters, digits and others, runs of one kind shortened: Jan-31 is Aa-0"""
    kinds = ["A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word]
    return "".join(kind for k, kind in enumerate(kinds) if k == 0 or kind != kinds[k - 1])


def token_attributes(sentence: Sentence, t: int) -> list[str]:
    """Words and tags at most two tokens away, their pairs, prefixes, suffixes and the shape of the word"""

    def at(column: int, offset: int) -> str:
        return sentence[t + offset][column] if 0 <= t + offset < len(sentence) else "-"

    word = sentence[t][0]
    names = [f"w{o}={at(0, o).lower()}" for o in range(-2, 3)] + [f"t{o}={at(1, o)}" for o in range(-2, 3)]
    names += [f"w{o}{o + 1}={at(0, o).lower()}|{at(0, o + 1).lower()}" for o in (-1, 0)]
    names += [f"t{o}{o + 1}={at(1, o)}|{at(1, o + 1)}" for o in range(-2, 2)]
    names += [f"t{o}..={at(1, o)}|{at(1, o + 1)}|{at(1, o + 2)}" for o in range(-2, 1)]
    names += [f"p{k}={word[:k]}" for k in (2, 3)] + [f"s{k}={word[-k:]}" for k in (2, 3)]
    return [*names, f"shape={shape(word)}"]


def conll(quick: bool = False) -> tuple[Samples, Samples]:
    """Training and test sentences. Features seen once in training are dropped."""
    parts = [conll_sentences(part)[: CONLL_QUICK if quick else None] for part in ("train", "test")]
    named = [[[token_attributes(s, t) for t in range(len(s))] for s in part] for part in parts]
    seen = Counter(name for sentence in named[0] for token in sentence for name in token)
    column = {name: k for k, name in enumerate(name for name, count in seen.items() if count > 1)}
    known = [[[[name for name in token if name in column] for token in s] for s in part] for part in named]
    made = []
    for part, names in zip(parts, known, strict=True):
        X = [indicators(sentence, column) for sentence in names]
        made.append(Samples(X, [[tag for _, _, tag in sentence] for sentence in part], names))
    return made[0], made[1]


def indicators(sentence: list[list[str]], column: dict[str, int]) -> sp.csr_matrix:
    indptr = np.concatenate([[0], np.cumsum([len(token) for token in sentence])])
    indices = np.array([column[name] for token in sentence for name in token], dtype=np.int32)
    matrix = sp.csr_matrix((np.ones(indices.size), indices, indptr), shape=(len(sentence), len(column)))
    matrix.sort_indices()
    return matrix


# ---- proteins --------------------------------------------------------------------------------------------

Protein = list[tuple[str, str]]  # residue, structure: h for helix, e for sheet, _ for neither


def proteins(part: str) -> list[Protein]:
    """The proteins of Qian and Sejnowski (1988); `part` is train or test"""
    with lzma.open(path("protein_secondary_structure", f"protein-secondary-structure.{part}.xz"), "rt") as file:
        lines = [line.split() for line in file]
    found: list[Protein] = []
    for words in lines:
        if words == ["<>"]:
            found.append([])
        elif len(words) == 2 and not words[0].startswith("#"):
            found[-1].append((words[0], words[1]))
    return [protein for protein in found if protein]


def residue_attributes(protein: Protein, t: int) -> list[str]:
    """The residues at most seven places away, and pairs of neighbours at most four"""

    def at(offset: int) -> str:
        return protein[t + offset][0] if 0 <= t + offset < len(protein) else "-"

    return [*(f"r{o}={at(o)}" for o in range(-7, 8)), *(f"r{o}{o + 1}={at(o)}{at(o + 1)}" for o in range(-4, 4))]


# ---- all of them -----------------------------------------------------------------------------------------


def multiclass(load: Callable[[], workloads.Arrays]) -> Callable[[bool], Samples]:
    def samples(quick: bool) -> Samples:
        X, y = load()
        return Samples(X[:ROWS_QUICK], y[:ROWS_QUICK]) if quick else Samples(X, y)

    return samples


SETS: dict[str, tuple[Callable[[bool], Samples], str]] = {
    "ocr": (lambda quick: ocr_words([0], quick), "chain"),
    "ocr_all": (lambda quick: ocr_words(range(10), quick), "chain"),
    "conll2000": (lambda quick: conll(quick)[0], "chain"),
    "letter": (multiclass(workloads.letter), "multiclass"),
    "mnist": (multiclass(workloads.mnist), "multiclass"),
}


def load(name: str, quick: bool) -> Samples:
    """The training samples of a workload"""
    return SETS[name][0](quick)


def kind(name: str) -> str:
    """The kind of structure: chain or multiclass"""
    return SETS[name][1]


# ---- how good predictions are ----------------------------------------------------------------------------


def token_accuracy(truth: Sequence[Sequence[Any]], guess: Sequence[Sequence[Any]]) -> float:
    right = [a == b for one, other in zip(truth, guess, strict=True) for a, b in zip(one, other, strict=True)]
    return float(np.mean(right))


def chunks(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """(first, last + 1, kind) of each chunk, read as the evaluation of CoNLL-2000 does: I-X after another kind starts one"""
    found, start, kind = set(), 0, ""
    for t, tag in enumerate([*tags, "O"]):
        mark, _, name = tag.partition("-")
        if kind and (mark != "I" or name != kind):
            found.add((start, t, kind))
            kind = ""
        if name and not kind:
            start, kind = t, name
    return found


def chunk_f1(truth: Sequence[Sequence[str]], guess: Sequence[Sequence[str]]) -> float:
    right = wanted = given = 0
    for one, other in zip(truth, guess, strict=True):
        a, b = chunks(one), chunks(list(map(str, other)))
        right, wanted, given = right + len(a & b), wanted + len(a), given + len(b)
    return 2.0 * right / max(wanted + given, 1)
