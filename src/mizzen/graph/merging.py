"""Merges the messages that arrive at an ensemble into one: the weighted mean, or the label with the most weight.

Nearly all tensors have few values. Plain Python merges those and numpy merges larger ones, with bit-identical results:
members are added one after the other, in the order given.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import fsum, isnan, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from mizzen.graph import messages
from mizzen.protocol import plain_elements, v2
from mizzen.protocol.frames.framing import RAW
from mizzen.protocol.plain_elements import unpack

if TYPE_CHECKING:
    from mizzen.protocol.tensors import Array

AlignedTensors = Sequence[v2.Entry]
"""The same tensor of each member."""

_MAX_PYTHON_ELEMENTS = 64
"""Up to this many elements, plain Python is faster than numpy."""
_SCALAR_SHAPE = [1]
_TIE_TOLERANCE = 1e-9
"""Share of the total weight within which labels tie, so that weights of 0.1 and 0.2 tie with 0.3."""
_STRING_COST = 16
_FLOATS = frozenset({"FP16", "FP32", "FP64"})
_LABELS = frozenset({"BOOL", "BYTES"})
"""Datatypes that are not numbers."""
_NAN = float("nan")
"""One object for all NaN values, so that NaN as a label equals itself."""


class EnsembleMember(NamedTuple):
    """One message from one dependency."""

    key: str
    weight: float
    entries: Sequence[v2.Entry]


class Mismatch(ValueError):
    """Members cannot be merged. The text names the members and the difference."""


def mean(members: Sequence[EnsembleMember], threshold: float | None = None) -> messages.Entries:
    """Element-wise Σw·y/Σw of tensors with equal names and shapes; the plain mean if all weights are 0.

    Tensors are in the order of the first member. They are FP32 if all inputs are, else FP64. With a threshold they are
    INT64: 1 if the mean is at least the threshold, else 0. Raises ValueError, also if data does not fit its shape.
    """
    weights, total = _weights_of(members)
    merged: messages.Entries = []
    messages.require_few(members[0].entries, len(members))
    for at in range(len(members[0].entries)):
        alike = _align_tensors(members, at)
        name, _, shape, _, _ = alike[0]
        datatype = "FP32"
        for tensor in alike:
            if tensor[1] in _LABELS:
                raise Mismatch(_no_mean_text(members, alike, tensor))
            if tensor[1] != "FP32":
                datatype = "FP64"
        if shape != _SCALAR_SHAPE and prod(shape) > _MAX_PYTHON_ELEMENTS:
            merged.append(_mean_in_numpy(alike, weights, total, datatype, threshold))
            continue
        means: Sequence[float] = _mean_in_python(alike, weights, total)
        if threshold is not None:
            datatype, means = "INT64", [1 if one >= threshold else 0 for one in means]
        merged.append((name, datatype, shape, RAW, memoryview(plain_elements.pack(datatype, means))))
    if not merged:
        _require_no_tensors(members)
    return merged


def vote(members: Sequence[EnsembleMember]) -> tuple[messages.Entries, float]:
    """Return the element-wise label with the most weight, and the share of weight behind it, averaged over elements.

    In a tie, the label of the first listed member wins. Values, including floats, are labels compared by equality.
    Tensors must have equal names, shapes and datatypes.
    """
    weights, total = _weights_of(members)
    merged: messages.Entries = []
    # Each member's labels are compared with those of each member; strings take many times as long as numbers.
    strings = any(tensor[1] == "BYTES" for tensor in members[0].entries)
    messages.require_few(members[0].entries, len(members) * (_STRING_COST if strings else len(members)))
    agreed, count_in_all = 0.0, 0
    for at, first in enumerate(members[0].entries):
        name, datatype, shape, encoding, data = first
        alike = _align_tensors(members, at)
        for member, tensor in zip(members, alike, strict=True):
            if tensor[1] != datatype:
                raise Mismatch(
                    _difference_text(members[0], member, f"datatype of tensor '{name}'", datatype, tensor[1])
                )
        count = prod(shape)
        count_in_all += count
        if encoding == RAW and all(tensor[4] == data and tensor[3] == RAW for tensor in alike):
            merged.append(first)
            agreed += count
            continue
        few = count <= _MAX_PYTHON_ELEMENTS or datatype == "BYTES"
        chosen, shares = (_vote_in_python if few else _vote_in_numpy)(alike, weights, total)
        merged.append((name, datatype, shape, RAW, memoryview(chosen)))
        agreed += shares
    if not merged:
        _require_no_tensors(members)
    return merged, agreed / count_in_all if count_in_all else 1.0


def pairwise_disagreement(members: Sequence[EnsembleMember]) -> list[float]:
    """Return how much members differ, from 0 to 1, for each pair in order: (0, 1), (0, 2), ..., (1, 2), ...

    Compares first tensors: for labels (integers, booleans, BYTES) the share that differs; for floats the mean absolute
    difference, at most 1. Tensors of different shapes or kinds cannot be compared and count as 1.
    """
    try:
        firsts = [member.entries[0] for member in members]
        messages.require_few(firsts[:1], len(members))
    except ValueError:  # too large to compare
        return [0.0] * (len(members) * (len(members) - 1) // 2)
    except IndexError:  # a member has no tensors
        return [1.0 if one.entries or other.entries else 0.0 for one, other in combinations(members, 2)]
    _, datatype, shape, _, _ = firsts[0]
    if shape == _SCALAR_SHAPE and datatype not in _FLOATS:  # the most common case
        for tensor in firsts:
            if tensor[2] != shape or tensor[1] != datatype or tensor[3] != RAW:
                break
        else:
            return [0.0 if one[4] == other[4] else 1.0 for one, other in combinations(firsts, 2)]
    return [_distance(one, other) for one, other in combinations(firsts, 2)]


def _weights_of(members: Sequence[EnsembleMember]) -> tuple[list[float], float]:
    """Return the weights and their total. Added in a loop: the result of `sum` depends on the Python release."""
    weights = []
    total = 0.0
    for _, weight, _ in members:
        weights.append(weight)
        total += weight
    return (weights, total) if total else ([1.0] * len(weights), float(len(weights)))


def _align_tensors(members: Sequence[EnsembleMember], at: int) -> AlignedTensors:
    """Return the first member's tensor at index `at`, and the other members' tensors of the same name."""
    entries = members[0].entries
    name, _, shape, _, _ = first = entries[at]
    alike = [first]
    for member in members[1:]:
        others = member.entries
        if len(others) != len(entries):
            raise Mismatch(
                _difference_text(members[0], member, "tensors", _format_names(entries), _format_names(others))
            )
        tensor = others[at]
        if tensor[0] != name:  # may be in another order
            found = next((other for other in others if other[0] == name), None)
            if found is None:
                raise Mismatch(
                    _difference_text(members[0], member, "tensors", _format_names(entries), _format_names(others))
                )
            tensor = found
        if tensor[2] != shape:
            raise Mismatch(_difference_text(members[0], member, f"shape of tensor '{name}'", shape, tensor[2]))
        alike.append(tensor)
    return alike


def _require_no_tensors(members: Sequence[EnsembleMember]) -> None:
    """Raise Mismatch if a member has tensors although the first one has none."""
    for member in members:
        if member.entries:
            raise Mismatch(_difference_text(members[0], member, "tensors", "none", _format_names(member.entries)))


def _difference_text(one: EnsembleMember, other: EnsembleMember, what: str, its: object, others: object) -> str:
    return f"'{one.key}' and '{other.key}' differ in {what}: '{one.key}' has {its}, '{other.key}' has {others}"


def _format_names(entries: Sequence[v2.Entry]) -> str:
    return ", ".join(f"'{v2.shorten(entry[0])}'" for entry in entries) or "none"


def _mean_in_python(alike: AlignedTensors, weights: list[float], total: float) -> Sequence[float]:
    if len(alike) == 1:
        return messages.elements_of(alike[0])
    if alike[0][2] == _SCALAR_SHAPE:  # the most common case
        only = -0.0  # the neutral element: keeps the sign of zeros
        for place, tensor in enumerate(alike):
            values = unpack(tensor[1], _SCALAR_SHAPE, tensor[4]) if tensor[3] == RAW else messages.elements_of(tensor)
            only += weights[place] * values[0]
        return (only / total,)
    columns = [messages.elements_of(tensor) for tensor in alike]
    weight = weights[0]
    means = [weight * value for value in columns[0]]
    for weight, column in zip(weights[1:], columns[1:], strict=True):
        means = [mean + weight * value for mean, value in zip(means, column, strict=True)]
    return [mean / total for mean in means]


def _mean_in_numpy(
    alike: AlignedTensors, weights: list[float], total: float, datatype: str, threshold: float | None
) -> v2.Entry:
    import numpy as np

    with np.errstate(all="ignore"):
        means, *others = [messages.array_of(tensor).astype(np.float64) for tensor in alike]
        if others:
            means *= weights[0]
            for weight, column in zip(weights[1:], others, strict=True):
                means += weight * column
            means /= total
        if threshold is not None:
            datatype, means = "INT64", (means >= threshold).astype(np.int64)
        elif datatype == "FP32":
            means = means.astype(np.float32)
    name, _, shape, _, _ = alike[0]
    return name, datatype, shape, RAW, memoryview(means.tobytes())


def _no_mean_text(members: Sequence[EnsembleMember], alike: AlignedTensors, label: v2.Entry) -> str:
    key = next(member.key for member, tensor in zip(members, alike, strict=True) if tensor is label)
    return f"tensor '{label[0]}' of '{key}' is {label[1]}, which has no mean; to merge labels, set method: vote"


def _vote_in_python(alike: AlignedTensors, weights: list[float], total: float) -> tuple[bytes, float]:
    columns = [_labels_of(tensor) for tensor in alike]
    floats = alike[0][1] in _FLOATS
    least = _TIE_TOLERANCE * total
    chosen, shares = [], []
    for values in zip(*columns, strict=True):
        weighed: dict[Any, float] = {}
        for weight, value in zip(weights, values, strict=True):
            label = _NAN if floats and isnan(value) else value
            weighed[label] = weighed.get(label, 0.0) + weight
        enough = max(weighed.values()) - least
        for label, weight in weighed.items():
            if weight >= enough:
                chosen.append(label)
                shares.append(weight / total)
                break
    return plain_elements.pack(alike[0][1], chosen), fsum(shares)


def _vote_in_numpy(alike: AlignedTensors, weights: list[float], total: float) -> tuple[bytes, float]:
    import numpy as np

    columns = np.stack([messages.array_of(tensor).reshape(-1) for tensor in alike])
    odd = np.isnan(columns) if alike[0][1] in _FLOATS else np.zeros(columns.shape, bool)
    weighed = np.zeros(columns.shape)
    for at, column in enumerate(columns):
        for weight, other, other_odd in zip(weights, columns, odd, strict=True):
            weighed[at] += np.where((column == other) | (odd[at] & other_odd), weight, 0.0)
    first = (weighed >= weighed.max(axis=0) - _TIE_TOLERANCE * total).argmax(axis=0)
    places = np.arange(columns.shape[1])
    return columns[first, places].tobytes(), float((weighed[first, places] / total).sum())


def _labels_of(tensor: v2.Entry) -> Sequence[Any]:
    """Return the elements. BYTES become `bytes`, because one member may send text and another bytes."""
    values = messages.elements_of(tensor)
    return [v.encode() if isinstance(v, str) else v for v in values] if tensor[1] == "BYTES" else values


def _distance(one: v2.Entry, other: v2.Entry) -> float:
    if one[2] != other[2] or (one[1] != other[1] and (one[1] in _LABELS or other[1] in _LABELS)):
        return 1.0
    count = prod(one[2])
    if not count or (one[1:4] == other[1:4] and one[4] == other[4]):
        return 0.0
    floats = one[1] in _FLOATS or other[1] in _FLOATS
    if count > _MAX_PYTHON_ELEMENTS and one[1] != "BYTES":
        apart = _distance_in_numpy(messages.array_of(one), messages.array_of(other), floats=floats)
    elif floats:
        apart = sum([abs(a - b) for a, b in zip(_labels_of(one), _labels_of(other), strict=True)]) / count
    else:
        apart = sum([a != b for a, b in zip(_labels_of(one), _labels_of(other), strict=True)]) / count
    return apart if apart < 1.0 else 1.0  # also for NaN


def _distance_in_numpy(one: Array, other: Array, *, floats: bool) -> float:
    import numpy as np

    if not floats:
        return int(np.count_nonzero(one != other)) / one.size
    with np.errstate(all="ignore"):
        return float(np.abs(one.astype(np.float64) - other).mean())
