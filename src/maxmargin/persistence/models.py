"""`save` and `load`: a model as one file."""

import os
from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .container import ModelFileError, damage_told, read_stored, versions, write_stored
from .described import Describer
from .fingerprint import SCHEME, fingerprint
from .names import MODELS
from .restored import Restorer

MODEL_FILE = "model"
NOTED = ("numpy", "scipy", "scikit-learn")


def save_model(model: Any, path: str | os.PathLike[str], *, overwrite: bool = True, data: tuple[Any, ...] | None = None) -> None:
    """Write a fitted model to one `.safetensors` file.

    The file holds arrays, numbers and texts, no code: nothing in it is executed when it is read, and any program that reads
    safetensors sees the arrays. It is written beside its place and then moved there, so that there is never half a file.

    What a warm start would go on from, and callbacks, are not kept. A structure, loss, solver or kernel function of your own is
    code: what it has learned is kept, and `load` has to be given the object itself.

    Parameters
    ----------
    model : a fitted estimator of this package
        Pipelines are for `skops.io`: see the page on serving.
    path : str or path
    overwrite : bool, default=True
        Whether to replace a file that is there.
    data : tuple, optional
        What the model was fitted to, as it was given to `fit`: (X, y), or (X, y, sample_weight). A fingerprint of it goes into
        the file, for `load(path, data=...)` to compare: a hash of all its bytes, dtypes and shapes; of files on disk their names,
        sizes and times, and the options that they were opened with. It takes one read of the data, which is why no fit does it
        unasked.

    Raises
    ------
    ModelFileError
        Where the model holds something that a file cannot, or the file cannot be written.
    """
    if type(model) not in MODELS:
        raise ModelFileError(
            f"save takes fitted estimators of this package, not {type(model).__name__}; skops.io keeps whole pipelines."
        )
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise ModelFileError(f"This {type(model).__name__} is not fitted: there is no model to save.") from None
    describer = Describer()
    node = describer.node(model, "")
    manifest = {"model": node, "versions": versions(*NOTED)}
    if data is not None:
        manifest["data"], manifest["scheme"] = data_fingerprint(data), SCHEME
    write_stored(path, MODEL_FILE, manifest, describer.finished(), overwrite=overwrite)


def load_model(
    path: str | os.PathLike[str],
    *,
    mmap: bool = False,
    structure: Any = None,
    kernel: Any = None,
    loss: Any = None,
    solver: Any = None,
    data: tuple[Any, ...] | None = None,
) -> Any:
    """Read a model that `save` has written, to the last bit.

    Nothing in the file is executed or imported. Its checksums are compared; a file that is damaged, cut short, of another program
    or of a later version is refused in one sentence.

    Parameters
    ----------
    path : str or path
    mmap : bool, default=False
        Arrays stay in the file and are read where they are used: a large model is there at once, and processes on one machine
        share one copy. They are read-only, and their bytes are not compared with the checksum; load once without, to check.
    structure, kernel, loss, solver : optional
        Objects of your own that the model was fitted with, as they were given to it: files hold no code.
    data : tuple, optional
        (X, y), or (X, y, sample_weight): a model that was saved with other data, or with none, is refused.

    Returns
    -------
    The fitted estimator.

    Raises
    ------
    ModelFileError
    """
    manifest, arrays = read_stored(path, MODEL_FILE, mapped=mmap)
    given = {"structure": structure, "kernel": kernel, "loss": loss, "solver": solver}
    with damage_told(path):
        found = Restorer(arrays, given).value(manifest["model"])
        if type(found) not in MODELS:
            raise ValueError("there is no model in it")
        assert isinstance(found, BaseEstimator)
        check_parameters(found)
    if data is not None:
        check_data(manifest, data, path)
    return found


def check_parameters(model: Any) -> None:
    """Refuse parameters that no model is fitted with."""
    model._validate_params()
    check_is_fitted(model)


def data_fingerprint(data: Any) -> str:
    if not isinstance(data, tuple):
        raise TypeError(f"data must be a tuple of what fit was given, (X, y); got a {type(data).__name__}.")
    return fingerprint(data)


def check_data(manifest: Mapping[str, Any], data: Any, path: str | os.PathLike[str]) -> None:
    """Refuse a model of other data."""
    found, told = data_fingerprint(data), manifest.get("data")
    if told is None:
        raise ModelFileError(f"{path} does not say what its model was fitted to: it was saved without data=(X, y).")
    if told != found and manifest.get("scheme", 1) != SCHEME:
        raise ModelFileError(
            f"{path} was saved by another version of maxmargin, whose fingerprints differ: it cannot tell whether its model was "
            "fitted to these data. Load it without data=, and save it again with them."
        )
    if told != found:
        raise ModelFileError(f"The model in {path} was fitted to other data than these.")
