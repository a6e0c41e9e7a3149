"""What a hello allows."""

from __future__ import annotations

from typing import Any

import pytest

from mizzen.gateway.signature import Hello, Tensor, decode_hello, signature_of
from mizzen.protocol import msgpack, v2


def hello_of(*inputs: tuple[str, list[int]], strict: bool = True) -> Hello:
    tensors = [Tensor(name, "FP64", shape) for name, shape in inputs]
    return Hello(state="ready", inputs=tensors, outputs=[Tensor("y", "FP64", [-1])], strict=strict)


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
        (hello_of(("x", [-1, 2])), request_of(("z", [1, 2])), "inputs[0].name: 'z' is none of 'x'"),
        (hello_of(("x", [-1, 2])), request_of(("x", [1, 3])), "inputs[0].shape: [1, 3] does not fit [-1, 2]"),
        (hello_of(("x", [-1])), request_of(("x", [])), "inputs[0].shape: [] does not fit [-1]"),
        (hello_of(("x", [-1, 2])), request_of(("x", [1, 2, 1])), "inputs[0].shape: [1, 2, 1] does not fit [-1, 2]"),
        (hello_of(("x", [-1, 2])), request_of(("x", [1, 2]), ("z", [1])), "inputs[1].name: 'z' is none of 'x'"),
        (hello_of(("a", [-1]), ("b", [-1]), ("c", [-1])), request_of(("a", [1])), "inputs: 'b', 'c' is missing"),
        (hello_of(("x", [-1])), request_of(("x", [1]), outputs=["y", "w"]), "outputs[1].name: 'w' is none of 'y'"),
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
    assert hello.inputs == [Tensor("x", "FP64", [-1, 4])]
    assert hello.strict


def test_one_tensor_of_rows_may_stand_for_all_inputs() -> None:
    columns = [Tensor("age", "FP64", [-1]), Tensor("city", "BYTES", [-1])]
    hello = Hello(state="ready", inputs=columns, strict=True, table=Tensor("input", "BYTES", [-1, 2]))
    check(hello, request_of(("input", [3, 2])))
    check(hello, request_of(("age", [3]), ("city", [3])))
    with pytest.raises(ValueError, match=r"inputs\[0\].shape: \[3, 1\] does not fit \[-1, 2\]"):
        check(hello, request_of(("input", [3, 1])))
    with pytest.raises(ValueError, match=r"inputs\[1\].name: 'input' is none of 'age', 'city'"):
        check(hello, request_of(("age", [3]), ("input", [3, 2])))
