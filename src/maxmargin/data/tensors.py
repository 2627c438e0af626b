"""Tables on a device: tensors of PyTorch, and what other libraries hand over by DLPack. The only file that names torch.

A tensor stays where it is: on a GPU, or in host memory where device="cpu" asks for that, in float64, float32, float16 or
bfloat16. Its table has no rows for compiled kernels; blocks of it answer with matrix products of the device. Other tensors in
host memory are read as arrays that share it. Nothing of torch is imported before a tensor is met or a device asked for.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from .matrices import check_norms
from .table import RowBlock, Table, table_of

HOST = 1  # the number of host memory in DLPack
FOUND_BY = 1 << 26  # numbers that are looked at together: temporaries stay small beside X
MOST_HALVED = 8  # how often blocks are made smaller for want of room
INSTALL = "pip install 'maxmargin[gpu]'"


def library() -> Any:
    """PyTorch, or a sentence that says how to get it."""
    try:
        import torch
    except ImportError:
        raise ImportError(f"Tensors and device= need torch (PyTorch), which is not installed: {INSTALL}.") from None
    return torch


def is_tensor(X: Any) -> bool:
    """Whether X is a tensor, or speaks DLPack and lies where NumPy cannot read it. Imports nothing."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(X, getattr(torch, "Tensor", ())):
        return True
    if isinstance(X, np.ndarray | np.generic) or not (hasattr(X, "__dlpack__") and hasattr(X, "__dlpack_device__")):
        return False
    return not hasattr(X, "__array__") or int(X.__dlpack_device__()[0]) != HOST


def tensor_of(X: Any) -> Any:
    """The tensor, which shares the memory of X."""
    torch = library()
    return X if isinstance(X, torch.Tensor) else torch.from_dlpack(X)


def device_of(given: Any) -> Any:
    """The device that a user names, which must be there."""
    torch = library()
    try:
        device = torch.device(given)
    except (RuntimeError, TypeError):
        raise ValueError(f"device must be None or what torch.device takes, as 'cuda' or 'cuda:1'; got {given!r}.") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            why = "this PyTorch is built without CUDA" if torch.version.cuda is None else "PyTorch finds no GPU"
            raise ValueError(f"device={given!r} asks for a GPU, but {why}. Leave device out to fit on the processor.")
        if (device.index or 0) >= torch.cuda.device_count():
            raise ValueError(f"device={given!r} does not exist: PyTorch finds {torch.cuda.device_count()} GPU(s).")
    return device


def brought(array: Any, device: Any, dtype: Any = None) -> Any:
    """An array on a device; torch warns of memory that it must not write to, which is copied."""
    writable = not isinstance(array, np.ndarray) or array.flags.writeable
    return library().as_tensor(array if writable else array.copy(), device=device, dtype=dtype)


def no_room(what: str, device: Any) -> MemoryError:
    """What to say where a device has no room for something."""
    return MemoryError(f"{device} has no room for {what}: fit on the processor (X.cpu().numpy()), or to fewer rows or classes.")


def room_of(device: Any) -> int:
    """Bytes that a GPU has left, with those that PyTorch holds for later, within what the user lets PyTorch have
    (`torch.cuda.set_per_process_memory_fraction`; older versions do not tell)."""
    cuda = library().cuda
    device = cuda.current_device() if device.index is None else device.index
    free, total = cuda.mem_get_info(device)
    held = int(cuda.memory_allocated(device))
    fraction = getattr(cuda, "get_per_process_memory_fraction", lambda device: 1.0)(device)
    return min(int(free) + int(cuda.memory_reserved(device)) - held, int(fraction * total) - held)


@contextmanager
def on_device(device: Any) -> Iterator[None]:
    """What a device cannot do, in sentences: no room is left, or it is gone. `device` None: nothing is watched."""
    try:
        yield
    except RuntimeError as error:
        if device is None or device.type == "cpu":
            raise
        if isinstance(error, library().cuda.OutOfMemoryError):
            raise no_room("the tables of this problem", device) from None
        if "CUDA error" in str(error):
            first = str(error).splitlines()[0]
            raise RuntimeError(
                f"{device} was lost during the fit ({first}): nothing was fitted. A new process may use it again."
            ) from error
        raise


def host_values(given: Any, device: Any = None, name: str = "y") -> Any:
    """Labels, targets or weights in host memory, whatever they were; a tensor among them may lie there or on the device of X."""
    if not is_tensor(given):
        return given
    tensor = lent(given, device, name)
    if not (tensor.dtype.is_floating_point and tensor.dtype.itemsize < 4):
        return tensor.cpu().numpy()
    return tensor.float().cpu().numpy()


def lent(given: Any, device: Any = None, name: str = "y") -> Any:
    """The tensor that a user gives beside X, which may lie in host memory or on the device of X."""
    tensor = tensor_of(given)
    if device is not None and tensor.device.type != "cpu" and tensor.device != device:
        raise ValueError(f"X lies on {device}, {name} on {tensor.device}: move one of them, {name}.to('{device}').")
    if tensor.requires_grad:
        raise ValueError(f"{name} requires grad, and a fit gives none: hand over {name}.detach().")
    return tensor


def in_host_memory(X: Any) -> bool:
    """Whether X is a tensor that NumPy can read."""
    return is_tensor(X) and tensor_of(X).device.type == "cpu"


def read_as_array(X: Any, device: Any) -> bool:
    """Whether X is a tensor that is read as an array: one in host memory, unless the user asks for a device."""
    return device is None and in_host_memory(X)


def as_array(X: Any) -> np.ndarray:
    """A tensor in host memory, checked, as an array that shares it; bfloat16 and float16 become float32."""
    tensor = checked_tensor(X).tensor
    found: np.ndarray = (tensor.float() if tensor.dtype.itemsize < 4 else tensor).numpy()
    return found


def as_tensor_again(answer: Any, X: Any) -> Any:
    """What a model answers to `as_array` of the tensor X, as it answers to tensors: numbers as tensors, in halves where X is."""
    if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "biuf":
        return answer
    found = library().from_numpy(answer)
    return found.to(tensor_of(X).dtype) if found.dtype.is_floating_point and tensor_of(X).dtype.itemsize < 4 else found


@dataclass(frozen=True)
class DeviceMatrix:
    """A checked tensor in the place of X."""

    tensor: Any

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.tensor.shape[0]), int(self.tensor.shape[1])

    @property
    def device(self) -> Any:
        return self.tensor.device

    def __len__(self) -> int:
        return self.shape[0]


def place_of(X: Any) -> Any:
    """The device of X, where it is one; else None."""
    if isinstance(X, DeviceMatrix):
        return X.device
    return tensor_of(X).device if is_tensor(X) else None


def checked_tensor(X: Any, device: Any = None) -> DeviceMatrix:
    """X as a table may be made of it, or a sentence that says what is wrong. `device`: where the user wants it, or None."""
    tensor = tensor_of(X)
    torch = library()
    if tensor.ndim != 2:
        raise ValueError(f"X must be a matrix (n_samples, n_features); it is a tensor of shape {tuple(tensor.shape)}.")
    if tensor.layout != torch.strided:
        raise ValueError("X is a sparse tensor, which is not taken: give X.to_dense(), or a SciPy CSR matrix in host memory.")
    if tensor.is_complex():
        raise ValueError("X is a complex tensor: a linear model needs real numbers.")
    if not tensor.is_floating_point():
        raise ValueError(f"X is a tensor of {tensor.dtype}, which matrix products do not take: give X.float().")
    if tensor.dtype.itemsize < 2:
        raise ValueError(f"X is a tensor of {tensor.dtype}; float64, float32, float16 and bfloat16 are taken.")
    if tensor.requires_grad:
        raise ValueError("X requires grad, and a fit gives none: hand over X.detach().")
    if tensor.device.type == "meta":
        raise ValueError("X is on the device 'meta': it has a shape and no numbers.")
    if device is not None and tensor.device != same_device(device, tensor.device):
        raise ValueError(f"X lies on {tensor.device}, device={str(device)!r} is asked for: X.to('{device}') moves it.")
    if 0 in tensor.shape:
        raise ValueError(f"Found array with {tensor.shape[0]} sample(s) and {tensor.shape[1]} feature(s): X is empty.")
    check_finite_tensor(tensor)
    return DeviceMatrix(tensor)


def same_device(wanted: Any, found: Any) -> Any:
    """`wanted`, with the number of the device found where the user gave none."""
    return found if wanted.type == found.type and wanted.index is None else wanted


def check_finite_tensor(X: Any) -> None:
    """Refuse NaN and infinity, naming the row. The sum of a part says for nearly all of them that there is none."""
    torch = library()
    wide = torch.float64 if X.dtype == torch.float64 else torch.float32
    size = max(FOUND_BY // X.shape[1], 1)
    starts = range(0, X.shape[0], size)
    sums = torch.stack([X[start : start + size].sum(dtype=wide) for start in starts])
    for k in torch.nonzero(~torch.isfinite(sums)).flatten().tolist():
        bad = ~torch.isfinite(X[starts[k] : starts[k] + size]).all(dim=1)
        if bool(bad.any()):
            raise ValueError(f"Input X contains NaN or infinity, first in row {starts[k] + int(bad.int().argmax())}.")


def squared_lengths_of(X: Any) -> Any:
    """Of each row, in float64. The squares are float64 as well, so that none overflows."""
    torch = library()
    return torch.linalg.vector_norm(X, dim=1, dtype=torch.float64).square()


class TensorBlock(RowBlock):
    """Some rows of a tensor. Weights may be arrays: they are brought to where the rows are."""

    def scores(self, W: Any) -> Any:
        """(rows, classes) on the device of X, in its dtype; W is (classes, features + 1)."""
        W = library().as_tensor(W, device=self.X.device)
        wide = self.X.dtype if self.X.dtype.itemsize > 2 else library().float32
        return (self.X.to(wide) @ W[:, :-1].to(wide).T + self.bias * W[:, -1].to(wide)).to(self.X.dtype)


class TensorTable(Table):
    """A checked tensor, not copied and not moved."""

    resident = True  # whether all rows are where they are worked on

    def __init__(self, X: DeviceMatrix, bias: float = 0.0):
        super().__init__()
        self.X, self.bias, self.halved = X, float(bias), 0
        self._lengths: list[tuple[np.ndarray | None, Any]] = []

    def smaller(self) -> bool:
        """From now on blocks of rows are half as large; False where they have become too small for that to help."""
        self.halved += 1
        if self.device.type == "cuda":
            library().cuda.empty_cache()
        return self.halved <= MOST_HALVED

    @property
    def tensor(self) -> Any:
        return self.X.tensor

    @property
    def device(self) -> Any:
        """Where duals and weights are kept."""
        return self.X.device

    @property
    def rows(self) -> Any:
        raise TypeError("Compiled kernels read rows in host memory; X is a tensor, which is read by blocks: X.cpu().numpy().")

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    @property
    def dtype(self) -> np.dtype:
        """The narrowest of NumPy's that holds its numbers."""
        return np.dtype(np.float64 if self.tensor.dtype == library().float64 else np.float32)

    @property
    def matrix(self) -> Any:
        return self.X

    def like(self, X: Any) -> "TensorTable":
        return TensorTable(X, self.bias)

    def blocks(self, size: int = 1 << 16) -> Iterator[TensorBlock]:
        for start in range(0, self.shape[0], size):
            stop = min(start + size, self.shape[0])
            yield TensorBlock(self.tensor[start:stop], self.bias, start, stop)

    def norms(self, variance: np.ndarray | None = None, n_jobs: int = 1) -> np.ndarray:
        found: np.ndarray = self.squared_lengths(variance).cpu().numpy()
        return found

    def squared_lengths(self, variance: np.ndarray | None = None) -> Any:
        """The same, on the device."""
        for known, found in self._lengths:
            if known is variance or (known is not None and variance is not None and np.array_equal(known, variance)):
                return found
        torch, parts = library(), []
        scale = None if variance is None else torch.as_tensor(np.sqrt(variance[:-1]), device=self.device)
        for block in self.blocks(max(FOUND_BY // self.shape[1], 1)):
            X = block.X if scale is None else block.X * scale
            parts.append(squared_lengths_of(X))
        constant = self.bias**2 * (1.0 if variance is None else float(variance[-1]))
        result = torch.cat(parts) + constant
        if not bool(torch.isfinite(result).all()):
            check_norms(result.cpu().numpy())
        self._lengths.append((variance, result))
        return result

    def arranged(self, order: Any) -> Any:
        """Rows in random order, in the order in which they are best visited."""
        return order

    def visits(self, order: Any, size: int, dtype: Any) -> Iterator[tuple[Any, Any]]:
        """The rows of `order`, `size` of them at a time: their numbers, and what they hold, in this dtype. `order` None: all."""
        if order is None:
            for block in self.blocks(size):
                yield library().arange(block.start, block.stop, device=self.device), block.X.to(dtype)
            return
        for rows in order.split(size):
            yield rows, self.tensor.index_select(0, rows).to(dtype)


@table_of.register
def _(X: DeviceMatrix, bias: float = 0.0, sparse_below: float = 0.0) -> TensorTable:
    return TensorTable(X, bias)


def tensor_scores(X: DeviceMatrix, W: np.ndarray) -> Any:
    """X W' with the intercepts last in W, as a tensor on the device of X."""
    return library().cat([block.scores(W) for block in TensorTable(X, 1.0).blocks()])


class TensorDuals:
    """Duals that stay where a run has kept them: a table of a million rows and a thousand classes is not copied without need.
    Pickles as an array, so that any machine can read it."""

    def __init__(self, tensor: Any):
        self.tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    def __reduce__(self):
        return duals_from, (self.tensor.cpu().numpy(),)


def duals_from(array: np.ndarray) -> TensorDuals:
    return TensorDuals(library().from_numpy(array))
