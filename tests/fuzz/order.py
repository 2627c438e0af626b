"""The kinds of problems in turn: a problem's number says its kind."""

ORDER = (
    "binary", "multiclass", "topk", "regression", "multilabel", "structured", "binary", "latent", "explicit", "kernel",
    "multiclass", "structured", "topk", "minimize", "regression", "multilabel", "kernel, one target", "latent structured",
    "zero-shot", "forms", "search", "probability", "tight",
)  # fmt: skip


def kind_of(number: int) -> str:
    return ORDER[number % len(ORDER)]
