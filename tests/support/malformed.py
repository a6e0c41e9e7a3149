"""Requests for one model with a signature, right and wrong: strategies that break a right one in one place.

The model takes `x` FP32 [-1, 2], `k` INT8 [-1] and `t` BYTES [-1], all of the same number of rows. Whatever is drawn
from `wrong` has to be refused, and no value of it may reach the model.
"""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

V2, V1 = "/v2/models/strict/infer", "/v1/models/strict:predict"
LENGTH = "Inference-Header-Content-Length"

Parts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sent:
    """A request: all but its Host and Content-Length."""

    path: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = field(default=())
    why: str = ""


def rows(count: int, seed: int) -> Parts:
    """Values that tell whose they are."""
    return {
        "x": [[seed + row, row / 2] for row in range(count)],
        "k": [(seed + row) % 128 for row in range(count)],
        "t": [f"é{seed}.{row}" for row in range(count)],
    }


def v2(values: Parts) -> Parts:
    count = len(values["k"])
    return {
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [count, 2], "data": values["x"]},
            {"name": "k", "datatype": "INT8", "shape": [count], "data": values["k"]},
            {"name": "t", "datatype": "BYTES", "shape": [count], "data": values["t"]},
        ]
    }


def v2_raw(values: Parts) -> tuple[Parts, list[bytes]]:
    """The JSON, and the bytes of each input."""
    texts = [text.encode() for text in values["t"]]
    data = [
        np.array(values["x"], "<f4").tobytes(),
        np.array(values["k"], "i1").tobytes(),
        b"".join(struct.pack("<I", len(text)) + text for text in texts),
    ]
    said = v2(values)
    for tensor, part in zip(said["inputs"], data, strict=True):
        del tensor["data"]
        tensor["parameters"] = {"binary_data_size": len(part)}
    return said, data


def v1(values: Parts) -> Parts:
    names = ("x", "k", "t")
    return {"instances": [dict(zip(names, row, strict=True)) for row in zip(*(values[n] for n in names), strict=True)]}


def text(said: Any) -> bytes:
    return json.dumps(said).encode()


def raw(said: Parts, data: list[bytes], length: str | None = None, why: str = "") -> Sent:
    head = text(said)
    return Sent(V2, head + b"".join(data), ((LENGTH, str(len(head)) if length is None else length),), why)


values = st.builds(rows, st.integers(1, 4), st.integers(0, 1000))

# What is wrong with a value, wherever it stands: JSON texts.
_NO_NUMBER = ("null", "true", '"1"', "{}", "[]", "[1]", "NaN", "Infinity", "-Infinity", "1e999", "-1e400", "01", "+1",
              ".5", "1.", "1e", "0x1", "--1", "", "1 2", "\x00", "1" * 400)  # fmt: skip
NO_FLOATS = (*_NO_NUMBER, "1e39", "-3.5e38", "9" * 39)
NO_INTS = (
    *_NO_NUMBER,
    "300",
    "-129",
    "128",
    "1.5",
    "1.0",
    "1e1",
    "9223372036854775808",
    "-9223372036854775809",
    "9" * 30,
)
NO_TEXTS = ("null", "true", "1", "{}", '["a"]', '"\\ud800"', '"\\x"', '"', "'a'", '"\n"', '"\xff')

_MARK = "@@"


def _set(at: str, value: Any) -> Callable[[Parts], None]:
    def change(said: Parts) -> None:
        *way, last = at.split(".")
        inner: Any = said
        for step in way:
            inner = inner[int(step) if step.isdigit() else step]
        if value is None:
            del inner[int(last) if last.isdigit() else last]
        else:
            inner[int(last) if last.isdigit() else last] = value

    return change


def _tensors(said: Parts) -> Any:
    return said["inputs"]


WRONG_SHAPES: tuple[Any, ...] = (
    [], [2], [9, 2], [1, 2, 1], [-1, 2], [2**31, 2], [2**62, 2], [2**64, 2], ["1", 2], [1.0, 2], [True, 2], 2, {}, "12",
    [[1], 2], [0, 2], [1] * 40,
)  # fmt: skip
WRONG_TIMEOUTS: tuple[Any, ...] = (-1, 0, 1.5, "9", True, [])
WRONG_PARAMETERS: tuple[Any, ...] = ([], 7, "a", {"binary_data_output": "yes"})
WRONG_IDS: tuple[Any, ...] = (7, [], "a" * 257)
WRONG_INSTANCES: tuple[Any, ...] = ([], {}, 7, "a", [7], [[1, 2]], [{}], [None])
WRONG_WISHES: tuple[Any, ...] = (
    [{"name": "nothing"}], [{"name": "sum"}, {"name": "sum"}], [{}], [7], {}, "sum", [{"name": ""}],
    [{"name": "sum", "parameters": {"binary_data": 1}}], [{"name": "sum", "parameters": {"classification": 3}}],
)  # fmt: skip

SAID_V2: dict[str, Callable[[Parts], Any]] = {
    "no inputs": _set("inputs", None),
    "inputs empty": _set("inputs", []),
    "inputs an object": _set("inputs", {}),
    "an input missing": _set("inputs.1", None),
    "an input renamed": _set("inputs.0.name", "y"),
    "a name of nothing": _set("inputs.0.name", ""),
    "a name that is a number": _set("inputs.0.name", 7),
    "an input twice": lambda said: _tensors(said).append(_tensors(said)[1]),
    "one input more": lambda said: _tensors(said).append({**_tensors(said)[1], "name": "y"}),
    "an input that is none": _set("inputs.2", 7),
    "no shape": _set("inputs.1.shape", None),
    "no datatype": _set("inputs.1.datatype", None),
    **{f"x {kind}": _set("inputs.0.datatype", kind) for kind in ("FP64", "INT64", "BYTES", "BOOL", "FP33", "fp32", 7)},
    **{f"k {kind}": _set("inputs.1.datatype", kind) for kind in ("INT16", "UINT8", "FP32", "BYTES", "BOOL")},
    **{f"t {kind}": _set("inputs.2.datatype", kind) for kind in ("FP32", "INT8", "BOOL")},
    **{f"shape {shape}": _set("inputs.0.shape", shape) for shape in WRONG_SHAPES},
    "rows differ": lambda said: _tensors(said)[1].update(shape=[len(_tensors(said)) + 9]),
    **{f"output {wish}": _set("outputs", wish) for wish in WRONG_WISHES},
    **{f"timeout {it}": _set("parameters", {"timeout": it}) for it in WRONG_TIMEOUTS},
    **{f"parameters {it}": _set("parameters", it) for it in WRONG_PARAMETERS},
    **{f"id {it!s:.9}": _set("id", it) for it in WRONG_IDS},
}
SAID_V1: dict[str, Callable[[Parts], Any]] = {
    "no instances": _set("instances", None),
    **{f"instances {it}": _set("instances", it) for it in WRONG_INSTANCES},
    "inputs too": _set("inputs", [1]),
    "unknown": _set("rows", []),
    **{f"signature {it}": _set("signature_name", it) for it in ("other", 7, "")},
    "a value missing": _set("instances.0.k", None),
    "a value more": _set("instances.0.y", 1),
    "ragged": _set("instances.0.x", [1, 2, 3]),
    "flat": _set("instances.0.x", 1),
    "deeper": _set("instances.0.x", [[1, 2]]),
    "no base64": _set("instances.0.t", {"b64": "?"}),
    "base64 of nothing": _set("instances.0.t", {"b64": 7}),
}


@st.composite
def wrong_v2(draw: st.DrawFn) -> Sent:
    said = v2(draw(values))
    why = draw(st.sampled_from(sorted(SAID_V2)))
    SAID_V2[why](said)
    return Sent(V2, text(said), why=why)


@st.composite
def wrong_v1(draw: st.DrawFn) -> Sent:
    said = v1(draw(values))
    why = draw(st.sampled_from(sorted(SAID_V1)))
    SAID_V1[why](said)
    return Sent(V1, text(said), why=why)


@st.composite
def wrong_value(draw: st.DrawFn) -> Sent:
    """One value that is none of its type, in V2 or V1."""
    given = copy.deepcopy(draw(values))
    name, values_, at = draw(
        st.sampled_from([("x", NO_FLOATS, -1), ("x", NO_FLOATS, 0), ("k", NO_INTS, 0), ("t", NO_TEXTS, -1)])
    )
    odd = draw(st.sampled_from(values_))
    row = given[name][at]
    if name == "x":
        row[draw(st.integers(0, 1))] = _MARK
    else:
        given[name][at] = _MARK
    path, said = draw(st.sampled_from([(V2, v2(given)), (V1, v1(given))]))
    body = text(said).replace(b'"@@"', odd.encode("latin-1"))
    return Sent(path, body, why=f"{name} holds {odd[:30]!r}")


@st.composite
def wrong_length(draw: st.DrawFn) -> Sent:
    """More or fewer values than the shape says, flat or nested."""
    said = v2(draw(values))
    tensor = draw(st.sampled_from(said["inputs"]))
    data = [number for row in tensor["data"] for number in (row if isinstance(row, list) else [row])]
    why = draw(st.sampled_from(["one more", "one less", "none", "nested", "ragged"]))
    tensor["data"] = {
        "one more": [*data, data[0]], "one less": data[:-1], "none": [], "nested": [[[data]]],
        "ragged": [*tensor["data"][:-1], [data[-1]] * 3],
    }[why]  # fmt: skip
    return Sent(V2, text(said), why=f"{tensor['name']}: {why}")


@st.composite
def wrong_text(draw: st.DrawFn) -> Sent:
    """No JSON, or not only JSON, or not of this world."""
    path, said = draw(st.sampled_from([(V2, v2(rows(2, 7))), (V1, v1(rows(2, 7)))]))
    body = text(said)
    deep = draw(st.integers(1100, 60_000))
    broken = {
        "empty": b"", "BOM": b"\xef\xbb\xbf" + body, "UTF-16": body.decode().encode("utf-16"),
        "cut": body[: draw(st.integers(1, len(body) - 1))],
        "more": body + draw(st.sampled_from([b"}", b"x", b"{}", b"\0"])),
        "invalid UTF-8": body.replace(b"7.0", b"\xc3\x28", 1), "a list": b"[" + body + b"]",
        "text": text(body.decode()), "deep": b'{"a":' * deep + b"1" + b"}" * deep,
        "deep lists": body[:-1] + b', "parameters": {"a": ' + b"[" * deep + b"]" * deep + b"}}",
        "garbage": draw(st.binary(min_size=1, max_size=60).filter(lambda data: b"{" not in data)),
    }  # fmt: skip
    why = draw(st.sampled_from(sorted(broken)))
    return Sent(path, broken[why], why=why)


@st.composite
def wrong_bytes(draw: st.DrawFn) -> Sent:
    """Of the extension for binary tensors."""
    said, data = v2_raw(draw(values))
    head = len(text(said))
    at = draw(st.integers(0, 2))
    sizes = said["inputs"][at]["parameters"]
    true = sizes["binary_data_size"]
    why = draw(st.sampled_from(["length", "size", "cut", "more", "both", "neither", "elements", "structure"]))
    if why == "length":
        whole = head + sum(map(len, data))
        length = draw(st.sampled_from(["0", "-1", "", "abc", "1e3", "0x10", str(whole + 1), str(head - 1), str(2**70),
                                       f"{head}, {head}", f"{head}.0", f"+{head}", "9" * 12]))  # fmt: skip
        return raw(said, data, length, why=f"length {length}")
    if why == "size":
        odd: tuple[Any, ...] = (-1, true + 1, true - 1, 2**31, 2**63, 2**70, str(true), float(true), True, None, [], {})
        sizes["binary_data_size"] = draw(st.sampled_from(odd))
    elif why == "cut":
        data[-1] = data[-1][: draw(st.integers(0, len(data[-1]) - 1))]
    elif why == "more":
        data.append(draw(st.binary(min_size=1, max_size=9)))
    elif why == "both":
        said["inputs"][at]["data"] = [1]
    elif why == "neither":
        del said["inputs"][at]["parameters"]
    elif why == "elements":
        data[2] = struct.pack("<I", draw(st.sampled_from([0, 1, 2**31, 2**32 - 1]))) + data[2][4:]
    else:
        change = draw(st.sampled_from(["an input missing", "an input renamed", "an input twice", "shape [9, 2]",
                                       "shape [2]", "x FP64", "k INT16", "t INT8", "k BOOL"]))  # fmt: skip
        SAID_V2[change](said)
        why = change
    return raw(said, data, why=why)


wrong = st.one_of(wrong_v2(), wrong_v1(), wrong_value(), wrong_length(), wrong_text(), wrong_bytes())
