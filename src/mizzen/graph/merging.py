"""What arrives at an ensemble, as one message: the weighted mean, or the labels that most weight is for.

Nearly all tensors are of a few values: these are merged in plain Python, larger ones by numpy, with the same results to
the last bit. Members are summed up in the order given, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import fsum, isnan, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from mizzen.graph import messages
from mizzen.protocol import plain_elements, v2
from mizzen.protocol.frames.framing import RAW
from mizzen.protocol.plain_elements import unpacked

if TYPE_CHECKING:
    from mizzen.protocol.tensors import Array

Alike = Sequence[v2.Entry]
"""One tensor, as each of the members has it."""

_FEW = 64
"""Elements up to which numpy takes longer than it saves."""
_ONE = [1]
_TIED = 1e-9
"""Of all weight: labels that differ by no more are tied. Weights as people write them, 0.1 and 0.2 against 0.3, are."""
_FLOATS = frozenset({"FP16", "FP32", "FP64"})
_LABELS = frozenset({"BOOL", "BYTES"})
"""What is no number."""
_NAN = float("nan")
"""Equal to itself where it is a label: all that are not a number stand for one."""


class Member(NamedTuple):
    """What one dependency sent, or one of several messages of it."""

    key: str
    weight: float
    entries: Sequence[v2.Entry]


class Mismatch(ValueError):
    """Members cannot be merged; the text names them and what differs."""


def mean(members: Sequence[Member], threshold: float | None = None) -> messages.Message:
    """Element by element Σw·y/Σw of tensors with equal names and shapes; the plain mean where all weights are 0.

    Tensors are in the order of the first member. They are FP32 where all are, else FP64; with a threshold INT64: 1
    where the mean is that or more, else 0. ValueError also for data that does not fit its shape.
    """
    weights, total = _weights(members)
    merged: messages.Message = []
    for at in range(len(members[0].entries)):
        alike = _alike(members, at)
        name, _, shape, _, _ = alike[0]
        datatype = "FP32"
        for tensor in alike:
            if tensor[1] in _LABELS:
                raise Mismatch(_no_number(members, alike, tensor))
            if tensor[1] != "FP32":
                datatype = "FP64"
        if shape != _ONE and prod(shape) > _FEW:
            merged.append(_many_means(alike, weights, total, datatype, threshold))
            continue
        means: Sequence[float] = _few_means(alike, weights, total)
        if threshold is not None:
            datatype, means = "INT64", [1 if one >= threshold else 0 for one in means]
        merged.append((name, datatype, shape, RAW, memoryview(plain_elements.packed(datatype, means))))
    if not merged:
        _demand_nothing(members)
    return merged


def vote(members: Sequence[Member]) -> tuple[messages.Message, float]:
    """Element by element the label that most weight is for, of those tied that of the member listed first. And the
    share of weight that is for it, the mean over all elements.

    Values are labels by equality, floats too, and must have equal names, shapes and datatypes.
    """
    weights, total = _weights(members)
    merged: messages.Message = []
    agreed, count_in_all = 0.0, 0
    for at, first in enumerate(members[0].entries):
        name, datatype, shape, encoding, data = first
        alike = _alike(members, at)
        for member, tensor in zip(members, alike, strict=True):
            if tensor[1] != datatype:
                raise Mismatch(_differ(members[0], member, f"datatype of tensor '{name}'", datatype, tensor[1]))
        count = prod(shape)
        count_in_all += count
        if encoding == RAW and all(tensor[4] == data and tensor[3] == RAW for tensor in alike):
            merged.append(first)
            agreed += count
            continue
        few = count <= _FEW or datatype == "BYTES"
        chosen, shares = (_few_votes if few else _many_votes)(alike, weights, total)
        merged.append((name, datatype, shape, RAW, memoryview(chosen)))
        agreed += shares
    if not merged:
        _demand_nothing(members)
    return merged, agreed / count_in_all if count_in_all else 1.0


def disagreement(members: Sequence[Member]) -> list[float]:
    """How much members differ, from 0 to 1, for each pair in order: (0, 1), (0, 2), ..., (1, 2), ...

    By their first tensors: of labels (integers, booleans, BYTES) the share that differs, of floats the mean difference,
    at most 1. What cannot be compared, because it is of another shape or kind, differs in all.
    """
    try:
        firsts = [member.entries[0] for member in members]
    except IndexError:  # somebody sent nothing
        return [1.0 if one.entries or other.entries else 0.0 for one, other in combinations(members, 2)]
    _, datatype, shape, _, _ = firsts[0]
    if shape == _ONE and datatype not in _FLOATS:  # what nearly all are
        for tensor in firsts:
            if tensor[2] != shape or tensor[1] != datatype or tensor[3] != RAW:
                break
        else:
            return [0.0 if one[4] == other[4] else 1.0 for one, other in combinations(firsts, 2)]
    return [_apart(one, other) for one, other in combinations(firsts, 2)]


def _weights(members: Sequence[Member]) -> tuple[list[float], float]:
    """Of each, and of all. Added one by one: how `sum` does it depends on the release of Python."""
    weights = []
    total = 0.0
    for _, weight, _ in members:
        weights.append(weight)
        total += weight
    return (weights, total) if total else ([1.0] * len(weights), float(len(weights)))


def _alike(members: Sequence[Member], at: int) -> Alike:
    """The tensor at this place of the first member, and those of its name of all others."""
    entries = members[0].entries
    name, _, shape, _, _ = first = entries[at]
    alike = [first]
    for member in members[1:]:
        others = member.entries
        if len(others) != len(entries):
            raise Mismatch(_differ(members[0], member, "tensors", _names(entries), _names(others)))
        tensor = others[at]
        if tensor[0] != name:  # perhaps in another order
            found = next((other for other in others if other[0] == name), None)
            if found is None:
                raise Mismatch(_differ(members[0], member, "tensors", _names(entries), _names(others)))
            tensor = found
        if tensor[2] != shape:
            raise Mismatch(_differ(members[0], member, f"shape of tensor '{name}'", shape, tensor[2]))
        alike.append(tensor)
    return alike


def _demand_nothing(members: Sequence[Member]) -> None:
    """Where the first sent no tensor at all."""
    for member in members:
        if member.entries:
            raise Mismatch(_differ(members[0], member, "tensors", "none", _names(member.entries)))


def _differ(one: Member, other: Member, what: str, its: object, others: object) -> str:
    return f"'{one.key}' and '{other.key}' differ in {what}: '{one.key}' has {its}, '{other.key}' has {others}"


def _names(entries: Sequence[v2.Entry]) -> str:
    return ", ".join(f"'{v2.cited(entry[0])}'" for entry in entries) or "none"


def _few_means(alike: Alike, weights: list[float], total: float) -> Sequence[float]:
    if len(alike) == 1:
        return messages.elements_of(alike[0])
    if alike[0][2] == _ONE:  # what nearly all are
        only = -0.0  # what is added to it stays as it is, zeros too
        for place, tensor in enumerate(alike):
            values = unpacked(tensor[1], _ONE, tensor[4]) if tensor[3] == RAW else messages.elements_of(tensor)
            only += weights[place] * values[0]
        return (only / total,)
    columns = [messages.elements_of(tensor) for tensor in alike]
    weight = weights[0]
    means = [weight * value for value in columns[0]]
    for weight, column in zip(weights[1:], columns[1:], strict=True):
        means = [mean + weight * value for mean, value in zip(means, column, strict=True)]
    return [mean / total for mean in means]


def _many_means(alike: Alike, weights: list[float], total: float, datatype: str, threshold: float | None) -> v2.Entry:
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


def _no_number(members: Sequence[Member], alike: Alike, label: v2.Entry) -> str:
    key = next(member.key for member, tensor in zip(members, alike, strict=True) if tensor is label)
    return f"tensor '{label[0]}' of '{key}' is {label[1]}, which has no mean; labels are merged by method: vote"


def _few_votes(alike: Alike, weights: list[float], total: float) -> tuple[bytes, float]:
    columns = [_labels(tensor) for tensor in alike]
    floats = alike[0][1] in _FLOATS
    least = _TIED * total
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
    return plain_elements.packed(alike[0][1], chosen), fsum(shares)


def _many_votes(alike: Alike, weights: list[float], total: float) -> tuple[bytes, float]:
    import numpy as np

    columns = np.stack([messages.array_of(tensor).reshape(-1) for tensor in alike])
    odd = np.isnan(columns) if alike[0][1] in _FLOATS else np.zeros(columns.shape, bool)
    weighed = np.zeros(columns.shape)
    for at, column in enumerate(columns):
        for weight, other, other_odd in zip(weights, columns, odd, strict=True):
            weighed[at] += np.where((column == other) | (odd[at] & other_odd), weight, 0.0)
    first = (weighed >= weighed.max(axis=0) - _TIED * total).argmax(axis=0)
    places = np.arange(columns.shape[1])
    return columns[first, places].tobytes(), float((weighed[first, places] / total).sum())


def _labels(tensor: v2.Entry) -> Sequence[Any]:
    """Those of BYTES may come as text from one, and as bytes from another."""
    values = messages.elements_of(tensor)
    return [v.encode() if isinstance(v, str) else v for v in values] if tensor[1] == "BYTES" else values


def _apart(one: v2.Entry, other: v2.Entry) -> float:
    if one[2] != other[2] or (one[1] != other[1] and (one[1] in _LABELS or other[1] in _LABELS)):
        return 1.0
    count = prod(one[2])
    if not count or (one[1:4] == other[1:4] and one[4] == other[4]):
        return 0.0
    floats = one[1] in _FLOATS or other[1] in _FLOATS
    if count > _FEW and one[1] != "BYTES":
        apart = _many_apart(messages.array_of(one), messages.array_of(other), floats=floats)
    elif floats:
        apart = sum([abs(a - b) for a, b in zip(_labels(one), _labels(other), strict=True)]) / count
    else:
        apart = sum([a != b for a, b in zip(_labels(one), _labels(other), strict=True)]) / count
    return apart if apart < 1.0 else 1.0  # also where that is no number


def _many_apart(one: Array, other: Array, *, floats: bool) -> float:
    import numpy as np

    if not floats:
        return int(np.count_nonzero(one != other)) / one.size
    with np.errstate(all="ignore"):
        return float(np.abs(one.astype(np.float64) - other).mean())
