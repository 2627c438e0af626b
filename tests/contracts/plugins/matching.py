"""A structure in plain Python: which of the points on the left goes with which on the right.

A sample is an array (n, n, features) of what every pair looks like; an output is a permutation, out[i] the partner of i.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment

from maxmargin.extend import Structure


class Matching(Structure):
    def size(self, X, y):
        return X[0].shape[2]

    def joint_feature(self, x, y):
        return x[np.arange(len(y)), y].sum(axis=0)

    def loss(self, y_true, y):
        return float(np.sum(np.asarray(y_true) != np.asarray(y)))

    def decode(self, w, x):
        return linear_sum_assignment(x @ w, maximize=True)[1]

    def loss_augmented_decode(self, w, x, y_true):
        wrong = np.ones(x.shape[:2])
        wrong[np.arange(len(y_true)), y_true] = 0.0
        return linear_sum_assignment(x @ w + wrong, maximize=True)[1]
