"""Sets of the benchmark `gpu`, made on the device, and what is minimised on each: by an estimator, and in plain PyTorch.

Rows are class means N(0, 0.12^2) plus unit noise, scaled to length one; "shifted" adds a vector that all rows have in common, as
features of a network do. "labels": the sum of the means of a row's labels, which are drawn one in a hundred.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import maxmargin as mm

LAM = 1e-5
NOISE, COMMON, PRESENT = 0.12, 0.5, 0.01
PART = 65_536  # rows that are made, or evaluated, at a time
K = 5  # of the top-k loss


class Kind(NamedTuple):
    """A loss: the estimator of it, its values in PyTorch for scores and targets, and rows of a batch of Adam and SGD."""

    estimator: Callable[..., Any]
    losses: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    batch: int


class Shape(NamedTuple):
    kind: str
    rows: int
    features: int
    scores: int
    shift: float = 0.0


class Made(NamedTuple):
    name: str
    shape: Shape
    X: torch.Tensor
    y: torch.Tensor

    @property
    def kind(self) -> Kind:
        return KINDS[self.shape.kind]

    @property
    def C(self) -> float:  # noqa: N802 - as in the formulas
        return 1.0 / (LAM * len(self.X))

    def first(self, rows: int) -> "Made":
        return Made(self.name, self.shape._replace(rows=rows), self.X[:rows], self.y[:rows])

    def model(self, tol: float, **options: Any) -> Any:
        return self.kind.estimator(C=self.C, tol=tol, random_state=0, fit_intercept=False, **options)

    def objective(self, W: torch.Tensor) -> float:
        """In float32 but for the sums."""
        parts = zip(self.X.split(PART), self.y.split(PART))
        total = sum(float(self.kind.losses(X @ W.T, y).double().sum()) for X, y in parts)
        return 0.5 * float(W.double().square().sum()) + self.C * total


def class_hinges(S: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Crammer and Singer's."""
    truth = S.gather(1, y[:, None])
    return (S + 1.0).scatter(1, y[:, None], truth).amax(1) - truth[:, 0]


def topk_hinges(S: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    h = (S + 1.0 - S.gather(1, y[:, None])).scatter(1, y[:, None], -1e30)
    return h.topk(K, dim=1).values.sum(1).clamp(min=0.0) / K


def label_hinges(S: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (1.0 - torch.where(y, S, -S)).clamp(min=0.0).sum(1)


def hinges(S: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (1.0 - torch.where(y > 0, S[:, 0], -S[:, 0])).clamp(min=0.0)


KINDS = {
    "classes": Kind(mm.SVMClassifier, class_hinges, 4096),
    "top-k": Kind(lambda **options: mm.TopKSVMClassifier(k=K, **options), topk_hinges, 4096),
    "labels": Kind(lambda **options: mm.MultilabelSVMClassifier(loss="hinge", **options), label_hinges, 4096),
    "binary": Kind(mm.SVMClassifier, hinges, 65_536),
}
SHAPES = {
    "plain": Shape("classes", 1_281_167, 2048, 1000),
    "shifted": Shape("classes", 1_281_167, 2048, 1000, COMMON),
    "top-k": Shape("top-k", 1_281_167, 2048, 1000),
    "10,000 classes": Shape("classes", 100_000, 768, 10_000),
    "labels": Shape("labels", 500_000, 512, 1000),
    "binary": Shape("binary", 10_000_000, 256, 1),
}


def made(name: str, scale: float = 1.0) -> Made:
    """The set of this name, or one with a part of its rows."""
    shape = SHAPES[name]._replace(rows=max(int(SHAPES[name].rows * scale), 1))
    make = torch.Generator(device="cuda").manual_seed(0)

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(*size, device="cuda", generator=make)

    n, d, many = shape.rows, shape.features, max(shape.scores, 2)
    means, common = NOISE * normal(many, d), shape.shift * normal(d)
    y = torch.randint(0, many, (n,), device="cuda", generator=make)
    if shape.kind == "labels":
        y = torch.cat([torch.rand(len(part), many, device="cuda", generator=make) < PRESENT for part in y.split(PART)])
    X = torch.empty(n, d, device="cuda")
    for rows in torch.arange(n, device="cuda").split(PART):
        centre = y[rows].float() @ means if shape.kind == "labels" else means[y[rows]]
        part = centre + normal(len(rows), d) + common
        X[rows] = part / part.norm(dim=1, keepdim=True)
    return Made(name, shape, X, y)
