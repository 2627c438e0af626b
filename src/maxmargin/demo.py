"""`python -m maxmargin.demo`: train on embedded data, show the certificate and draw a picture."""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from .estimators.classifier import SVMClassifier
from .plots import plot_certificate, pyplot
from .result import History


def closing_gap(X, y, model: SVMClassifier) -> History:
    """The exact bounds after 1, 2, 4, ... passes of runs that start alike."""
    bounds, passes = History(), 1
    run = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # being stopped early is the point here
        while not bounds or not run.certificate_.converged:
            bounds.append(run.set_params(max_iter=passes).fit(X, y).history_[-1])
            passes *= 2
    return bounds


def draw_bounds(bounds: History, model: SVMClassifier, path: Path) -> None:
    """The bounds closing in on the optimum, and the weights of each class as an image."""
    plt = pyplot()
    plt.switch_backend("Agg")
    figure = plt.figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.25])
    axes = left.subplots()
    plot_certificate(bounds, axes, against="iteration")
    axes.set_xscale("log", base=2)
    axes.set_title("The certificate: two bounds that meet")
    right.suptitle("What each class looks for (weights, as 8 x 8 images)")
    limit = np.abs(model.coef_).max()
    for name, weights, ax in zip(model.classes_, model.coef_, right.subplots(2, 5).flat, strict=True):
        ax.imshow(weights.reshape(8, 8), cmap="RdBu", vmin=-limit, vmax=limit)
        ax.set_title(str(name))
        ax.set_axis_off()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m maxmargin.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo.png"), help="where the picture goes (default: demo.png)")
    out = parser.parse_args(arguments).out
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y, test_size=0.25, random_state=0)
    print(f"Digits from scikit-learn: {len(y_train)} images of 8 x 8 for training, {len(y_test)} for testing, 10 classes.")
    print("Training (the first run on a machine compiles the kernels, some seconds) ...", flush=True)
    model = SVMClassifier(C=0.1, tol=1e-4, random_state=0)
    begin = time.perf_counter()
    model.fit(X_train, y_train)
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    model.fit(X_train, y_train)
    again = time.perf_counter() - begin
    certificate = model.certificate_
    print(f"  first fit {first:.2f} s, the same fit again {again:.3f} s")
    print(f"  primal        {certificate.primal:.6f}    no model of this kind is better than this by more than the gap")
    print(f"  dual          {certificate.dual:.6f}    and none at all is below this")
    print(f"  gap           {certificate.gap:.6f}    ({100 * certificate.relative_gap:.4f} % of the primal)")
    print(f"  {certificate.message}")
    print(f"  accuracy on the test images: {model.score(X_test, y_test):.3f}")
    try:
        pyplot()
    except ImportError as reason:
        print(f"No picture: {reason}", file=sys.stderr)
        return
    draw_bounds(closing_gap(X_train, y_train, model), model, out)
    print(f"Picture: {out}")


if __name__ == "__main__":
    main()
