"""Classes, targets and labels beside X on a device: ten million of them are not sent to the processor to be sorted there."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .indicators import BYTE, Checked, all_bits, not_an_indicator
from .label_lists import given_labels, names_of_count
from .tensors import DeviceMatrix, brought, host_values, is_tensor, lent, library

COUNTED = "b1", "u1", "i1", "i2", "i4", "i8"  # classes that are whole numbers, as torch has them
LABELS_TOGETHER = 1 << 26  # entries of a block of labels


def target_beside(X: DeviceMatrix, y: Any) -> Any:
    """A tensor of one number for each sample on the device of X, which a user gave as such, or an array of whole numbers; None
    of anything else."""
    if is_tensor(y):
        found = lent(y, X.device)
        if found.ndim != 1 or (found.dtype.itemsize < 4 and found.dtype.is_floating_point):
            return None
        return found.to(X.device)
    if isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.str[1:] in COUNTED and y.dtype.isnative:
        return brought(y, X.device)
    return None


def numbered(y: Any) -> tuple[np.ndarray, Any] | None:
    """The classes of a tensor, in order, and the number of each sample's; None where they are no whole numbers."""
    if y.dtype.is_floating_point or y.is_complex():
        return None
    classes, code = library().unique(y, return_inverse=True)
    return host_values(classes), code


def is_finite(tensor: Any) -> bool:
    return not tensor.dtype.is_floating_point or bool(library().isfinite(tensor).all())


def class_bits_beside(code: Any, classes: int) -> tuple[Any, Any]:
    """As `indicators.class_bits`, where the numbers are."""
    torch = library()
    present = torch.zeros((len(code), -(-classes // BYTE)), dtype=torch.uint8, device=code.device)
    present.scatter_(1, (code // BYTE)[:, None], (1 << code % BYTE).to(torch.uint8)[:, None])
    return present, brought(all_bits(classes), code.device).repeat(len(code), 1)


@dataclass(frozen=True, eq=False)
class DeviceLabels:
    """As `LabelColumns`, on a device: bytes of eight labels each, those that are present and those that are known."""

    present: Any
    known: Any
    shape: tuple[int, int]

    def masses(self, weight: np.ndarray) -> np.ndarray:
        """(labels, 2): the summed weight of the samples without and with each label, where it is known."""
        total = library().zeros((2, self.shape[1]), dtype=library().float64, device=self.present.device)
        weight = brought(weight, self.present.device)
        for start in range(0, self.shape[0], size := rows_together(self.shape[1])):
            part = slice(start, start + size)
            present, known = (unpacked(each[part], self.shape[1]) for each in (self.present, self.known))
            total[0] += weight[part] @ (known & ~present).double()
            total[1] += weight[part] @ present.double()
        found: np.ndarray = total.cpu().numpy().T.copy()
        return found

    def packed(self, columns: np.ndarray) -> tuple[Any, Any]:
        """All of them: on a device no label is left alone."""
        assert len(columns) == self.shape[1]
        return self.present, self.known


def rows_together(labels: int) -> int:
    return max(LABELS_TOGETHER // labels, 1)


def places(like: Any) -> Any:
    return like.new_ones(BYTE).cumsum(0).to(like.dtype) - 1


def unpacked(bits: Any, labels: int) -> Any:
    """Bytes as yes and no, one for each label."""
    wide = bits.int()
    return ((wide[:, :, None] >> places(wide)) & 1).flatten(1)[:, :labels].bool()


def packed_bits(yes: Any) -> Any:
    """Yes and no of labels as bytes of eight."""
    torch, (rows, labels) = library(), yes.shape
    wide = torch.zeros((rows, -(-labels // BYTE) * BYTE), dtype=torch.int32, device=yes.device)
    wide[:, :labels] = yes
    return (wide.view(rows, -1, BYTE) << places(wide)).sum(-1).to(torch.uint8)


def labels_beside(X: DeviceMatrix, Y: Any, names: Any) -> Checked | None:
    """A tensor of indicators (samples, labels) as `checked_labels` has arrays; None of anything else."""
    if not is_tensor(Y):
        return None
    torch, given = library(), lent(Y, X.device)
    if given.ndim != 2 or 0 in given.shape or given.is_complex():
        return None
    read, present, known = given_labels(np.empty((0, given.shape[1])), names), [], []
    for start in range(0, given.shape[0], size := rows_together(given.shape[1])):
        part = given[start : start + size].to(X.device)
        yes, unknown = part == 1, part.isnan() if part.is_floating_point() else torch.zeros_like(part, dtype=torch.bool)
        if bool((wrong := ~(yes | (part == 0) | unknown)).any()):
            row, column = torch.nonzero(wrong)[0].tolist()
            raise not_an_indicator(part[row, column].item(), start + row, column)
        present.append(packed_bits(yes))
        known.append(packed_bits(~unknown))
    columns = DeviceLabels(torch.cat(present), torch.cat(known), tuple(given.shape))
    names_of_count(read.names, given.shape[1])
    return Checked(columns, host_values(given[:0]).dtype, False, read.names)
