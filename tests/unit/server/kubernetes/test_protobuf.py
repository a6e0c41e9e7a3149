"""Kubernetes' protobuf: what kubectl sends is read, and nothing else does any harm."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.errors import BadRequest
from mizzen.server.kubernetes import protobuf

ACCESS = ("authorization.k8s.io/v1", "SelfSubjectAccessReview")

KUBECTL = {
    "auth can-i update models/iris --subresource=status -n lab": (
        "6b3873000a320a17617574686f72697a6174696f6e2e6b38732e696f2f7631121753656c665375626a656374416363657373526576696577"
        "12510a100a0012001a0022002a0032003800420012330a310a036c616212067570646174651a0a6d697a7a656e2e64657622002a066d6f"
        "64656c7332067374617475733a04697269731a08080012001a0020001a002200",
        {
            "resourceAttributes": {
                "namespace": "lab", "verb": "update", "group": "mizzen.dev", "resource": "models",
                "subresource": "status", "name": "iris",
            }
        },
    ),
    "auth can-i get /version": (
        "6b3873000a320a17617574686f72697a6174696f6e2e6b38732e696f2f7631121753656c665375626a656374416363657373526576696577"
        "122f0a100a0012001a0022002a003200380042001211120f0a082f76657273696f6e12036765741a08080012001a0020001a002200",
        {"nonResourceAttributes": {"path": "/version", "verb": "get"}},
    ),
    "auth can-i --list -n lab": (
        "6b3873000a310a17617574686f72697a6174696f6e2e6b38732e696f2f7631121653656c665375626a65637452756c6573526576696577"
        "121f0a100a0012001a0022002a0032003800420012050a036c61621a04180022001a002200",
        {"namespace": "lab"},
    ),
    "auth whoami": (
        "6b3873000a2d0a1861757468656e7469636174696f6e2e6b38732e696f2f7631121153656c665375626a656374526576696577"
        "121a0a100a0012001a0022002a0032003800420012060a040a0012001a002200",
        None,
    ),
    "create namespace cap": (
        "6b3873000a0f0a02763112094e616d657370616365121b0a130a0363617012001a0022002a0032003800420012001a020a001a002200",
        {},
    ),
}  # fmt: skip
"""Bodies that kubectl 1.37.1 sent, and the spec that each of them means."""


def number(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def part(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return number(field << 3 | 2) + number(len(data)) + data


def sent(type_: tuple[str, str], raw: bytes, *more: bytes) -> bytes:
    version, kind = type_
    return b"k8s\0" + part(1, part(1, version) + part(2, kind)) + part(2, raw) + b"".join(more)


@pytest.mark.parametrize("command", KUBECTL)
def test_what_kubectl_sends_is_read(command: str) -> None:
    body, spec = KUBECTL[command]
    found = protobuf.decode(bytes.fromhex(body))
    assert found.get("spec") == spec
    assert found["metadata"] == ({"name": "cap"} if "cap" in command else {})


def test_a_review_is_read_as_json_would_say_it() -> None:
    attributes = part(1, "lab") + part(2, "get") + part(3, "mizzen.dev") + part(5, "models") + part(7, "iris")
    # Go writes what is no pointer even when it is empty: metadata with its time, an empty version, the status.
    raw = part(1, part(1, "") + part(8, b"")) + part(2, part(1, attributes + part(4, ""))) + part(3, b"\x08\x00")
    assert protobuf.decode(sent(ACCESS, raw, part(3, ""), part(4, ""))) == {
        "apiVersion": ACCESS[0], "kind": ACCESS[1], "metadata": {},
        "spec": {
            "resourceAttributes": {
                "namespace": "lab", "verb": "get", "group": "mizzen.dev", "resource": "models", "name": "iris",
            }
        },
    }  # fmt: skip


def test_a_namespace_is_read_with_its_labels() -> None:
    metadata = part(1, "lab") + part(11, part(1, "team") + part(2, "a")) + part(11, part(1, "empty")) + part(14, "a/b")
    body = protobuf.decode(sent(("v1", "Namespace"), part(1, metadata) + part(2, part(1, "kubernetes")) + part(3, b"")))
    assert body["metadata"] == {"name": "lab", "labels": {"team": "a", "empty": ""}, "finalizers": ["a/b"]}
    assert body["spec"] == {"finalizers": ["kubernetes"]}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "begin with k8s"),
        (b'{"kind": "Namespace"}', "begin with k8s"),
        (sent(("v1", "Pod"), b""), "'Pod'"),
        (b"k8s\0", "''"),
        (sent(ACCESS, part(99, "x")), "unknown field 99"),
        (sent(ACCESS, part(2, part(1, part(1, b"\xff")))), "resourceAttributes.namespace is not valid UTF-8"),
        (sent(ACCESS, part(2, part(1, part(2, "get") + part(2, "list")))), "is given twice"),
        (sent(ACCESS, number(2 << 3) + b"\x05"), "wrong wire type"),
        (sent(ACCESS, part(2, "")[:-1] + b"\x7f"), "in the middle"),
        (sent(ACCESS, b"\xff" * 12), "unterminated varint"),
        (sent(ACCESS, b"\x18" + b"\xff" * 9 + b"\x02"), "more than 64 bits"),
        (sent(ACCESS, b"\x1a" + b"\x81" + b"\x80" * 8 + b"\x02" + b"x"), "more than 64 bits"),
        (sent(ACCESS, b"\x02\x00"), "invalid number"),
        (sent(ACCESS, b"\x0b"), "obsolete wire type"),
        (sent(ACCESS, b"", part(3, "gzip")), "without further encoding"),
        (sent(ACCESS, b"", part(4, "application/json")), "without further encoding"),
    ],
)
def test_what_is_wrong_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        protobuf.decode(body)


raw = st.recursive(
    st.binary(max_size=20),
    lambda inner: st.lists(st.builds(part, st.integers(1, 18), inner), max_size=4).map(b"".join),
    max_leaves=12,
)


@given(st.sampled_from([*protobuf.MESSAGES, ("v1", "Pod")]), raw)
def test_nothing_but_a_refusal_comes_of_strange_bytes(type_: tuple[str, str], strange: bytes) -> None:
    for body in (sent(type_, strange), b"k8s\0" + strange, strange):
        found: dict[str, Any] = {}
        try:
            found = protobuf.decode(body)
        except BadRequest:
            continue
        assert (found["apiVersion"], found["kind"]) in protobuf.MESSAGES
