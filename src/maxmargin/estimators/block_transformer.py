"""`BlockTransformer`: a transformer of scikit-learn's that takes sources as well, for pipelines."""

from typing import Any

from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from ..data.sources.base import Mapped, learned
from ..data.sources.memory import is_source


class BlockTransformer(TransformerMixin, BaseEstimator):
    """A transformer that takes sources as well as arrays, so that pipelines over sources work.

    Of a source, `fit` learns by the transformer's `partial_fit`, block by block, and `transform` returns a source whose blocks
    are transformed while they are read. Of arrays it does what the transformer does.

    Parameters
    ----------
    transformer : transformer
        One that needs no fit (Normalizer, FunctionTransformer), has `partial_fit` (StandardScaler, MaxAbsScaler, IncrementalPCA),
        or was fitted before: that one is used as it is where X is a source.

    Attributes
    ----------
    transformer_ : transformer
        The one in use.
    encoding_ : Encoding or None, where X was a source
        How its columns of categories became features; sources that are transformed are read so.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import maxmargin as mm
    >>> X, y = load_wine(return_X_y=True)
    >>> source = mm.open_source([(X[k : k + 50], y[k : k + 50]) for k in range(0, 178, 50)])
    >>> model = make_pipeline(mm.BlockTransformer(StandardScaler()), mm.SVMClassifier(random_state=0)).fit(source)
    >>> model.score(X, y) > 0.95
    True
    """

    def __init__(self, transformer):
        self.transformer = transformer

    def fit(self, X, y=None, **params):
        """Learn from an array or a source."""
        if is_source(X):
            self.transformer_ = learned(self.transformer, X)
            self.encoding_ = getattr(X, "encoding", None)
        else:
            self.transformer_ = clone(self.transformer).fit(X, y, **params)
        return self

    def transform(self, X) -> Any:
        """An array of an array; a source of a source."""
        check_is_fitted(self)
        if not is_source(X):
            return self.transformer_.transform(X)
        encoding = getattr(self, "encoding_", None)
        return Mapped(X if encoding is None else X.encoded(encoding), self.transformer_)

    def get_feature_names_out(self, input_features=None):
        """Those of the transformer."""
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
