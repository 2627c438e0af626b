"""The package as a user gets it without extras: every module is imported, every estimator learns, each missing extra is named."""

import importlib
import pkgutil
import sys
from importlib.metadata import metadata
from importlib.util import find_spec
from tempfile import NamedTemporaryFile

import numpy as np
from sklearn.base import BaseEstimator

import maxmargin as mm
from maxmargin.plots import plot_certificate

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
LABELS = np.arange(40) % 4
INDICATORS = np.column_stack([X[:, 0] > 0, X[:, 1] > 0]).astype(int)
CHAINS = [X[i : i + 4] for i in range(0, 40, 4)]
TAGS = [(x[:, 0] > 0).astype(int) for x in CHAINS]
COLOURS = np.where(LABELS % 2, 1, -1)
ROWS = list(0.1 * X + np.eye(4)[LABELS] * COLOURS[:, None])


class Spotted(mm.LatentStructure):
    """The sign of the entry that stands out; where it stands is hidden."""

    def size(self, X, y):
        return 1

    def joint_feature(self, x, y, z):
        return np.array([y * x[z]])

    def loss(self, y_true, y):
        return float(y_true != y)

    def impute(self, w, x, y):
        return int(np.argmax(y * w[0] * x))

    def decode(self, w, x):
        return max((1, -1), key=lambda y: np.max(y * w[0] * x))

    def loss_augmented_decode(self, w, x, y_true, z):
        y = max((1, -1), key=lambda y: np.max(y * w[0] * x) + (y != y_true))
        return y, self.impute(w, x, y)


TASKS = [
    (mm.SVMClassifier(random_state=0), X, X[:, 0] > 0),
    (mm.SVMClassifier(random_state=0), X, LABELS),
    (mm.SVMRegressor(random_state=0), X, X[:, 0]),
    (mm.TopKSVMClassifier(k=2, random_state=0), X, LABELS),
    (mm.MultilabelSVMClassifier(random_state=0), X, INDICATORS),
    (mm.MultilabelSVMClassifier(kernel="rbf"), X, INDICATORS),
    (mm.ZeroShotClassifier(mm.MultilabelSVMClassifier(random_state=0), [[0, 1], [1, 0]]), X, INDICATORS),
    (mm.RankingSVM(random_state=0), X, LABELS),
    (mm.OrdinalSVM(random_state=0), X, LABELS),
    (mm.OneClassSVM(random_state=0), X, None),
    (mm.StructuredSVM(mm.structures.Chain(), random_state=0), CHAINS, TAGS),
    (mm.LatentSVMClassifier(random_state=0), CHAINS, np.arange(10) % 2),
    (mm.LatentStructuredSVM(Spotted(), init=LABELS.tolist(), random_state=0), ROWS, COLOURS.tolist()),
    (mm.SVMClassifier(kernel="rbf", probability="sigmoid", random_state=0), X, X[:, 0] > 0),
    (mm.SVMRegressor(loss="squared_error", standardize=True), X, X[:, 0]),
    (mm.SVMClassifierCV([0.1, 1.0], cv=2, random_state=0), X, LABELS),
    (mm.SVMRegressorCV([0.1, 1.0], cv=2, random_state=0), X, X[:, 0]),
    (mm.TopKSVMClassifierCV([0.1, 1.0], cv=2, k=2, random_state=0), X, LABELS),
    (mm.MultilabelSVMClassifierCV([0.1, 1.0], cv=2, random_state=0), X, INDICATORS),
    (mm.StructuredSVMCV(mm.structures.Chain(), [0.1, 1.0], cv=2, random_state=0), CHAINS, TAGS),
]


def needing_parquet():
    with NamedTemporaryFile(suffix=".parquet") as file:
        mm.open_source(file.name, label="y")


def needing_graph():
    triangle = mm.structures.Graph(edges=[(0, 1), (1, 2), (2, 0)])
    mm.StructuredSVM(triangle).fit([x[:3] for x in CHAINS], [tags[:3] for tags in TAGS])


# extra: (the package it brings, what needs it)
EXTRAS = {
    "plot": ("matplotlib", lambda: plot_certificate(mm.SVMClassifier(random_state=0).fit(X, LABELS).history_)),
    "graph": ("networkx", needing_graph),
    "parquet": ("pyarrow", needing_parquet),
    "gpu": ("torch", lambda: mm.SVMClassifier(device="cpu").fit(X, LABELS)),
    "onnx": ("skl2onnx", lambda: mm.to_onnx(mm.SVMClassifier(random_state=0).fit(X, LABELS))),
}
FOR_DEVELOPERS = {"all", "bench", "dev", "test"}


# Compiled by a library of the extra `gpu`, which they import on top.
TRITON = "losses.entry_kernels", "losses.tensor_kernels", "losses.topk_kernels", "solvers.device.kernels"


def import_everything():
    for module in pkgutil.walk_packages(mm.__path__, "maxmargin."):
        if not module.name.endswith(TRITON):
            importlib.import_module(module.name)


def not_tried():
    """Public estimators without a task."""
    public = map(mm.__dict__.get, mm.__all__)
    classes = [thing for thing in public if isinstance(thing, type) and issubclass(thing, BaseEstimator)]
    return {cls for cls in classes if hasattr(cls, "predict")} - {type(model) for model, _, _ in TASKS}


def fit_everything():
    assert not not_tried(), f"{not_tried()} are not tried here"
    for model, data, target in TASKS:
        model.fit(data, target, **({"groups": None} if isinstance(model, mm.RankingSVM) else {}))
        found = getattr(model, "certificate_", None) or model.estimator_.certificate_
        assert found.converged and found.relative_gap >= -1e-12, (model, found)  # but for rounding
        assert len(model.predict(data)) == len(data), model


def ask_for_every_extra():
    declared = set(metadata("maxmargin").get_all("Provides-Extra")) - FOR_DEVELOPERS
    assert declared == set(EXTRAS), f"the extras are {sorted(declared)}, those tried here {sorted(EXTRAS)}"
    for extra, (package, use) in EXTRAS.items():
        assert find_spec(package) is None, f"{package} is installed: this is not the environment of a user without extras"
        try:
            use()
        except ImportError as error:
            assert package in str(error) and f"pip install 'maxmargin[{extra}]'" in str(error), error
        else:
            raise AssertionError(f"nothing was said about the missing {package}")


if __name__ == "__main__":
    import_everything()
    fit_everything()
    ask_for_every_extra()
    python = sys.version.split()[0]
    print(f"maxmargin {mm.__version__} works without extras on Python {python}: {len(TASKS)} fits, {len(EXTRAS)} messages")
