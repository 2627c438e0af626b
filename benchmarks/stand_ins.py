"""Small generated sets in the files of the real ones, so that --quick runs the code that reads and measures those anywhere.

Names, shapes and types are those of the real files, with fewer rows, columns and classes. What is measured on them says nothing.
"""

import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp

from .measure import environment

SPARSE = {"a9a": (400, 123, 2), "news20": (400, 500, 20)}  # rows, columns, classes
LABELS = {"yeast": (500, 103, 14), "scene": (200, 294, 6)}  # rows, columns, labels
SPARSE_LABELS = {"tmc2007_500": (300, 500, 22), "rcv1_subset1": (200, 800, 30), "bibtex": (200, 300, 30)}
DENSE = {"letter": ((16,), 26, 16), "mnist": ((28, 28), 10, 256), "caltech101_hog": ((624,), 101, 256)}  # ..., classes, values
WORDS, FOLDS, SENTENCES = 8, 10, 30
TAGS = {"the": "B-NP", "old": "I-NP", "dog": "I-NP", "sees": "B-VP", "it": "B-NP", "now": "O"}


def classes(rng: np.random.Generator, count: int, rows: int = 520) -> np.ndarray:
    """As many of each as of the others, or nearly."""
    return rng.permutation(np.arange(rows) % count).astype(np.uint8)


def dense(rng: np.random.Generator, y: np.ndarray, columns: tuple[int, ...], values: int) -> np.ndarray:
    """Pixels around a mean of their class."""
    means = np.random.default_rng(0).uniform(0.2, 0.8, (int(y.max()) + 1, *columns))
    return (values * np.clip(means[y] + 0.15 * rng.standard_normal((y.size, *columns)), 0.0, 0.999)).astype(np.uint8)


def sparse(rng: np.random.Generator, rows: int, columns: int) -> sp.csr_matrix:
    found = sp.random(rows, columns, 0.1, "csr", np.float32, rng, lambda size: rng.integers(1, 4, size))
    return found.astype(np.uint8)


def indicators(rng: np.random.Generator, X: np.ndarray, labels: int) -> np.ndarray:
    """Labels that a fifth of the rows have, by the same linear scores in each part."""
    scores = X @ np.random.default_rng(0).standard_normal((X.shape[1], labels))
    return (scores + 0.1 * scores.std() * rng.standard_normal(scores.shape) > 0.8 * scores.std()).astype(np.uint8)


def sentence(rng: np.random.Generator, words: list[str]) -> str:
    """A line for each token. I- follows a chunk of its kind always."""
    lines, last = [], "O"
    for word in rng.choice(words, int(rng.integers(3, 9))):
        tag = TAGS[word] if TAGS[word] != "I-NP" or last.endswith("NP") else "B-NP"
        lines.append(f"{word} {word[:2].upper()} {tag}")
        last = tag
    return "\n".join(lines)


def write(folder: Path) -> None:
    """Write all sets that the benchmarks read."""
    rng = np.random.default_rng(0)
    for name in (*DENSE, *SPARSE, *LABELS, *SPARSE_LABELS, "caltech101_silhouettes", "cadata", "ocr_letters"):
        (folder / name).mkdir()
    for name in ("conll2000", "protein_secondary_structure", "awa_attributes"):
        (folder / name).mkdir()
    for name, (columns, count, values) in DENSE.items():
        parts = {part: classes(rng, count, rows) for part, rows in (("train", 520), ("test", 202))}
        arrays = {f"y_{part}": y for part, y in parts.items()} | {
            f"X_{part}": dense(rng, y, columns, values) for part, y in parts.items()
        }
        np.savez(folder / name / f"{name}.npz", **arrays)
    for name, (rows, columns, count) in SPARSE.items():
        for part in ("train", "test"):
            sp.save_npz(folder / name / f"X_{part}.npz", sparse(rng, rows, columns))
        y = {f"y_{part}": classes(rng, count, rows).astype(np.int8) for part in ("train", "test")}
        np.savez(folder / name / "y.npz", **({key: 2 * one - 1 for key, one in y.items()} if count == 2 else y))
    for name, (rows, columns, count) in LABELS.items():
        X = {part: rng.standard_normal((rows, columns), dtype=np.float32) for part in ("train", "test")}
        Y = {f"Y_{part}": indicators(rng, one, count) for part, one in X.items()}
        np.savez(folder / name / f"{name}.npz", **{f"X_{part}": one for part, one in X.items()}, **Y)
    for name, (rows, columns, count) in SPARSE_LABELS.items():
        found = {part: sparse(rng, rows, columns) for part in ("train", "test")}
        for part, one in found.items():
            sp.save_npz(folder / name / f"X_{part}.npz", one)
        np.savez(folder / name / "Y.npz", **{f"Y_{part}": indicators(rng, one.toarray(), count) for part, one in found.items()})
    y = classes(rng, 101, 606)
    packed = np.packbits(dense(rng, y, (784,), 2) > 0, axis=1)
    np.savez(
        folder / "caltech101_silhouettes" / "caltech101_silhouettes.npz", X_packed=packed, y=y, is_test=np.arange(y.size) % 3 == 0
    )
    X = rng.standard_normal((600, 8), dtype=np.float32)
    np.savez(folder / "cadata" / "cadata.npz", X=X, y=2.0 + X.sum(axis=1) + rng.standard_normal(600, dtype=np.float32))
    lengths = rng.integers(3, 8, WORDS * FOLDS)
    y = classes(rng, 26, int(lengths.sum()))
    np.savez(
        folder / "ocr_letters" / "ocr_letters.npz",
        pixels_packed=np.packbits(dense(rng, y, (128,), 2) > 0, axis=1),
        labels=y,
        word_offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        fold=(np.arange(lengths.size) % FOLDS).astype(np.uint8),
    )
    np.savez(folder / "awa_attributes" / "awa_attributes.npz", predicate_matrix_binary=rng.integers(0, 2, (50, 85), np.uint8))
    for part in ("train", "test"):
        with lzma.open(folder / "conll2000" / f"{part}.txt.xz", "wt", encoding="latin-1") as file:
            file.write("\n\n".join(sentence(rng, list(TAGS)) for _ in range(SENTENCES)) + "\n")
        name = f"protein-secondary-structure.{part}.xz"
        with lzma.open(folder / "protein_secondary_structure" / name, "wt") as file:
            for _ in range(SENTENCES // 2):
                kinds = np.repeat(rng.choice(list("he_"), 5), 4)
                residues = [str(rng.choice(list({"h": "ALK", "e": "VIY", "_": "GPN"}[kind]))) for kind in kinds]
                file.write("<>\n" + "".join(f"{residue} {kind}\n" for residue, kind in zip(residues, kinds)) + "<end>\n")


@contextmanager
def instead() -> Iterator[Path]:
    """Stand-ins in the place of the real sets, for this process and those that it starts. Returns their folder."""
    with TemporaryDirectory(prefix="maxmargin-bench-") as folder:
        write(Path(folder))
        with environment({"MAXMARGIN_DATA": folder}):
            yield Path(folder)
