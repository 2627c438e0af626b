"""What an example adds to the weights of a row of classes: a few vectors of them at a time, as its entries are read for each."""

from ..jit import jitable, vectors
from .rows import column, first, last, last_column, value


@jitable
def next_changed(change, row, b):
    """The first block of classes from b on that changes."""
    while b < change.shape[1] and not vectors.any_filled(vectors.load(change, row, b)):
        b += 1
    return b


@jitable
def update_one(X, i, change, row, b, W):
    """W[j, b, :] += x_ij change[row, b, :], for one block of classes"""
    step = vectors.load(change, row, b)
    for k in range(first(X, i), last(X, i)):
        j = column(X, i, k)
        vectors.store(W, j, b, vectors.fma(vectors.load(W, j, b), value(X, i, k), step))
    j = last_column(X)
    vectors.store(W, j, b, vectors.fma(vectors.load(W, j, b), X.bias, step))


@jitable
def update(X, i, change, row, W):
    """W[j, b, :] += x_ij change[row, b, :], for the blocks of classes that change, three at a time"""
    b, blocks = 0, W.shape[1]
    while b < blocks:
        one = vectors.load(change, row, b)
        if vectors.any_filled(one):
            second = next_changed(change, row, b + 1)
            third = next_changed(change, row, second + 1)
            if third < blocks:
                two, three = vectors.load(change, row, second), vectors.load(change, row, third)
                for k in range(first(X, i), last(X, i)):
                    x, j = value(X, i, k), column(X, i, k)
                    vectors.store(W, j, b, vectors.fma(vectors.load(W, j, b), x, one))
                    vectors.store(W, j, second, vectors.fma(vectors.load(W, j, second), x, two))
                    vectors.store(W, j, third, vectors.fma(vectors.load(W, j, third), x, three))
                x, j = X.bias, last_column(X)
                vectors.store(W, j, b, vectors.fma(vectors.load(W, j, b), x, one))
                vectors.store(W, j, second, vectors.fma(vectors.load(W, j, second), x, two))
                vectors.store(W, j, third, vectors.fma(vectors.load(W, j, third), x, three))
                b = third
            else:
                update_one(X, i, change, row, b, W)
        b += 1


@jitable
def update_all(X, i, change, row, W):
    """As `update`, for a row of which every block changes: four at a time"""
    b, blocks = 0, W.shape[1]
    while blocks - b >= 4:
        one, two = vectors.load(change, row, b), vectors.load(change, row, b + 1)
        three, four = vectors.load(change, row, b + 2), vectors.load(change, row, b + 3)
        for k in range(first(X, i), last(X, i)):
            x, j = value(X, i, k), column(X, i, k)
            vectors.store(W, j, b, vectors.fma(vectors.load(W, j, b), x, one))
            vectors.store(W, j, b + 1, vectors.fma(vectors.load(W, j, b + 1), x, two))
            vectors.store(W, j, b + 2, vectors.fma(vectors.load(W, j, b + 2), x, three))
            vectors.store(W, j, b + 3, vectors.fma(vectors.load(W, j, b + 3), x, four))
        x, j = X.bias, last_column(X)
        vectors.store(W, j, b, vectors.fma(vectors.load(W, j, b), x, one))
        vectors.store(W, j, b + 1, vectors.fma(vectors.load(W, j, b + 1), x, two))
        vectors.store(W, j, b + 2, vectors.fma(vectors.load(W, j, b + 2), x, three))
        vectors.store(W, j, b + 3, vectors.fma(vectors.load(W, j, b + 3), x, four))
        b += 4
    while b < blocks:
        update_one(X, i, change, row, b, W)
        b += 1


@jitable
def update_clipped(X, i, change, variance, lower, V, W):
    """V[j, b, :] += x_ij variance[j, b, :] change[0, b, :] and W = max(V, lower) there"""
    for b in range(W.shape[1]):
        step = vectors.load(change, 0, b)
        if vectors.any_filled(step):
            for k in range(first(X, i), last(X, i)):
                j = column(X, i, k)
                moved = vectors.fma(vectors.load(V, j, b), value(X, i, k), vectors.multiply(step, vectors.load(variance, j, b)))
                vectors.store(V, j, b, moved)
                vectors.store(W, j, b, vectors.maximum(moved, vectors.load(lower, j, b)))
            j = last_column(X)
            moved = vectors.fma(vectors.load(V, j, b), X.bias, vectors.multiply(step, vectors.load(variance, j, b)))
            vectors.store(V, j, b, moved)
            vectors.store(W, j, b, vectors.maximum(moved, vectors.load(lower, j, b)))
