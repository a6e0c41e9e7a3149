"""What a hello allows."""

from __future__ import annotations

from typing import Any

import pytest

from mizzen.gateway.queueing.signature import Hello, HelloTensor, decode_hello, signature_of
from mizzen.protocol import v2
from mizzen.protocol.frames import framing, msgpack


def hello_of(*inputs: tuple[str, list[int]], strict: bool = True) -> Hello:
    tensors = [HelloTensor(name, "FP64", shape) for name, shape in inputs]
    return Hello(state="ready", inputs=tensors, outputs=[HelloTensor("y", "FP64", [-1])], strict=strict)


def request_of(*inputs: tuple[str, list[int]], outputs: list[str] | None = None) -> v2.InferRequest:
    tensors = [{"name": name, "shape": shape, "datatype": "FP64", "data": []} for name, shape in inputs]
    asked: dict[str, Any] = {"inputs": tensors}
    if outputs is not None:
        asked["outputs"] = [{"name": name} for name in outputs]
    return v2.decode(v2.to_json(asked))


def check(hello: Hello, request: v2.InferRequest) -> None:
    signature = signature_of(hello)
    assert signature is not None
    signature.check(request.inputs, request.outputs)


def test_a_lax_replica_takes_anything() -> None:
    assert signature_of(hello_of(("x", [-1, 2]), strict=False)) is None


@pytest.mark.parametrize(
    ("hello", "request_"),
    [
        (hello_of(("x", [-1, 2])), request_of(("x", [5, 2]), outputs=["y"])),
        (hello_of(("x", [-1])), request_of(("x", [5]))),
        (hello_of(("x", [-1, -1, 3])), request_of(("x", [5, 9, 3]))),
        (hello_of(("a", [-1, 1]), ("b", [-1])), request_of(("b", [5]), ("a", [5, 1]))),
        (hello_of(), request_of(("anything", [1]), outputs=[])),
    ],
)
def test_what_fits(hello: Hello, request_: v2.InferRequest) -> None:
    check(hello, request_)


@pytest.mark.parametrize(
    ("hello", "request_", "message"),
    [
        (hello_of(("x", [-1, 2])), request_of(("z", [1, 2])), "inputs[0].name: 'z' is not one of 'x'"),
        (hello_of(("x", [-1, 2])), request_of(("x", [1, 3])), "inputs[0].shape: [1, 3] does not fit [-1, 2]"),
        (hello_of(("x", [-1])), request_of(("x", [])), "inputs[0].shape: [] does not fit [-1]"),
        (hello_of(("x", [-1, 2])), request_of(("x", [1, 2, 1])), "inputs[0].shape: [1, 2, 1] does not fit [-1, 2]"),
        (hello_of(("x", [-1, 2])), request_of(("x", [1, 2]), ("z", [1])), "inputs[1].name: 'z' is not one of 'x'"),
        (hello_of(("a", [-1]), ("b", [-1]), ("c", [-1])), request_of(("a", [1])), "inputs: 'b', 'c' is missing"),
        (hello_of(("x", [-1])), request_of(("x", [1]), outputs=["y", "w"]), "outputs[1].name: 'w' is not one of 'y'"),
    ],
)
def test_what_does_not(hello: Hello, request_: v2.InferRequest, message: str) -> None:
    with pytest.raises(ValueError, match=r"\A") as caught:
        check(hello, request_)
    assert str(caught.value) == message


def test_reads_a_hello_as_it_is_sent() -> None:
    sent = {
        "state": "ready", "pid": 1, "framework": "sklearn", "strict": True, "batch": True,
        "inputs": [{"name": "x", "datatype": "FP64", "shape": [-1, 4]}], "outputs": [],
    }  # fmt: skip
    hello = decode_hello(msgpack.pack(sent))
    assert hello.inputs == [HelloTensor("x", "FP64", [-1, 4])]
    assert hello.strict


def test_one_tensor_of_rows_may_stand_for_all_inputs() -> None:
    columns = [HelloTensor("age", "FP64", [-1]), HelloTensor("city", "BYTES", [-1])]
    hello = Hello(state="ready", inputs=columns, strict=True, table=HelloTensor("input", "BYTES", [-1, 2]))
    check(hello, request_of(("input", [3, 2])))
    check(hello, request_of(("age", [3]), ("city", [3])))
    with pytest.raises(ValueError, match=r"inputs\[0\].shape: \[3, 1\] does not fit \[-1, 2\]"):
        check(hello, request_of(("input", [3, 1])))
    with pytest.raises(ValueError, match=r"inputs\[1\].name: 'input' is not one of 'age', 'city'"):
        check(hello, request_of(("age", [3]), ("input", [3, 2])))


def entries_of(*inputs: tuple[str, list[int]]) -> list[v2.Entry]:
    return [(name, "FP64", shape, framing.RAW, memoryview(b"")) for name, shape in inputs]


def adapt(hello: Hello, *inputs: tuple[str, list[int]]) -> list[tuple[str, list[int]]]:
    signature = signature_of(hello)
    assert signature is not None
    return [(entry[0], entry[2]) for entry in signature.adapt(entries_of(*inputs))]


@pytest.mark.parametrize(
    ("hello", "given", "sent"),
    [
        (hello_of(("x", [-1, 2])), ("x", [5, 2]), ("x", [5, 2])),
        (hello_of(("x", [-1, 2])), ("predict", [5, 2]), ("x", [5, 2])),
        (hello_of(("x", [-1])), ("predict", [5]), ("x", [5])),
        (hello_of(("x", [-1, -1])), ("predict", [5, 7]), ("x", [5, 7])),
        (hello_of(), ("predict", [5]), ("predict", [5])),
    ],
)
def test_one_tensor_goes_by_the_name_of_the_only_input(
    hello: Hello, given: tuple[str, list[int]], sent: tuple[str, list[int]]
) -> None:
    assert adapt(hello, given) == [sent]


def test_several_tensors_keep_their_names() -> None:
    two = (("b", [5]), ("a", [5, 1]))
    assert adapt(hello_of(("a", [-1, 1]), ("b", [-1])), *two) == list(two)


def test_what_stands_for_all_inputs_keeps_its_name() -> None:
    for columns in (
        [HelloTensor("age", "FP64", [-1])],
        [HelloTensor("age", "FP64", [-1]), HelloTensor("city", "BYTES", [-1])],
    ):
        width = len(columns)
        hello = Hello(state="ready", inputs=columns, strict=True, table=HelloTensor("input", "FP64", [-1, width]))
        assert adapt(hello, ("input", [3, width])) == [("input", [3, width])]
        with pytest.raises(ValueError, match=rf"input 'input': shape \[3, 9\] does not fit \[-1, {width}\]"):
            adapt(hello, ("input", [3, 9]))
    assert adapt(Hello(state="ready", inputs=columns[:1], strict=True), ("other", [3])) == [("age", [3])]


@pytest.mark.parametrize(
    ("hello", "given", "message"),
    [
        (hello_of(("x", [-1, 2])), [("y", [1, 3])], "input 'x': shape [1, 3] does not fit [-1, 2]"),
        (hello_of(("x", [-1])), [("x", [])], "input 'x': shape [] does not fit [-1]"),
        (hello_of(("x", [-1, 2])), [("x", [1, 2]), ("z", [1])], "input 'z' is not one of 'x'"),
        (hello_of(("x", [-1]), ("z", [-1])), [("y", [1])], "input 'y' is not one of 'x', 'z'"),
        (hello_of(("a", [-1]), ("b", [-1]), ("c", [-1])), [("a", [1])], "inputs: 'b', 'c' is missing"),
        (hello_of(("x", [-1])), [], "inputs: 'x' is missing"),
    ],
)
def test_what_cannot_be_adapted(hello: Hello, given: list[tuple[str, list[int]]], message: str) -> None:
    with pytest.raises(ValueError, match=r"\A") as caught:
        adapt(hello, *given)
    assert str(caught.value) == message
