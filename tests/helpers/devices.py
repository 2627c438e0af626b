"""Where tensors of tests lie: in host memory, or on a GPU (`make test-gpu`)."""

import os

import numpy as np
import torch

DEVICE = os.environ.get("MAXMARGIN_TEST_DEVICE", "cpu")
torch.set_num_threads(1)


def tensor(array, dtype=None) -> torch.Tensor:
    return torch.as_tensor(np.asarray(array), device=DEVICE, dtype=dtype)
