"""Who kubectl acts for, what they may; namespaces and events."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.conftest import user
from tests.conformance.kubectl import API_VERSION, Kubectl, model, server
from tests.support import planes


@pytest.fixture
def ann(plane: planes.TestPlane, kubectl: Kubectl) -> Iterator[Kubectl]:
    """Somebody who may read models of this namespace, and write one of them."""
    name = f"ann-{kubectl.namespace[5:30]}-{kubectl.namespace[-5:]}"
    plane.cli("user", "add", name)
    token = plane.cli("token", "create", name).stdout.strip()
    kubectl("create", "-f", "-", sent=[
        _binding("reads", name, "read", {"namespace": kubectl.namespace}),
        _binding("writes", name, "write", {"model": "iris"}),
    ])  # fmt: skip
    yield user(plane, kubectl.release, name, token).within(kubectl.namespace)
    plane.cli("user", "delete", name)


def test_who_is_permitted_little_does_little(kubectl: Kubectl, ann: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=[model("iris"), model("wine")])
    assert ann("get", "models", "-o", "name").out.split() == ["model.mizzen.dev/iris", "model.mizzen.dev/wine"]
    assert ann("label", "model", "iris", "a=1").out == "model.mizzen.dev/iris labeled\n"
    for words in (("label", "model", "wine", "a=1"), ("delete", "model", "wine")):
        assert "(Forbidden)" in ann(*words, code=1).err
    assert "(Forbidden)" in ann("create", "-f", "-", sent=model("third"), code=1).err
    assert "(Forbidden)" in ann("apply", "--server-side", "-f", "-", sent=model("wine", framework="onnx"), code=1).err
    assert "(Forbidden)" in ann.within("default")("create", "-f", "-", sent=model("iris"), code=1).err
    assert kubectl.json("get", "model", "iris")["metadata"]["annotations"]["mizzen.dev/actor"].startswith("ann-")


def test_a_token_that_is_revoked_opens_nothing(plane: planes.TestPlane, kubectl: Kubectl) -> None:
    name = f"bob-{kubectl.release}"
    plane.cli("user", "add", name)
    token = plane.cli("token", "create", name).stdout.strip()
    bob = user(plane, kubectl.release, name, token)
    plane.cli("user", "delete", name)
    assert "error: You must be logged in to the server" in bob("get", "models", code=1).err


def test_it_says_who_somebody_is(kubectl: Kubectl, ann: Kubectl) -> None:
    assert "admin" in kubectl("auth", "whoami").out
    assert kubectl.json("auth", "whoami")["status"]["userInfo"]["username"] == "admin"
    assert ann.json("auth", "whoami")["status"]["userInfo"]["username"].startswith("ann-")


def test_it_says_what_somebody_may(kubectl: Kubectl, ann: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=[model("iris"), model("wine")])
    assert kubectl("auth", "can-i", "create", "models").out == "yes\n"
    assert kubectl("auth", "can-i", "*", "*", "--all-namespaces").out == "yes\n"
    assert ann("auth", "can-i", "list", "models").out == "yes\n"
    assert ann("auth", "can-i", "update", "models/iris").out == "yes\n"
    assert ann("auth", "can-i", "delete", "models/wine", code=1).out.startswith("no - ann-")
    assert ann("auth", "can-i", "create", "inferencemodels", code=1).out.startswith("no - ann-")
    assert "models.mizzen.dev" in ann("auth", "can-i", "--list").out


def test_namespaces_come_and_go(kubectl: Kubectl) -> None:
    name = f"lab-{kubectl.release}"
    assert kubectl("create", "namespace", name).out == f"namespace/{name} created\n"
    assert "(AlreadyExists)" in kubectl("create", "namespace", name, code=1).err
    kubectl("create", "-f", "-", sent=model("iris"))
    there = kubectl("get", "namespaces", "-o", "name").out.split()
    assert {"namespace/default", f"namespace/{name}", f"namespace/{kubectl.namespace}"} <= set(there)
    assert "Active" in kubectl("get", "ns", name).out
    assert "Status:" in kubectl("describe", "ns", name).out
    kubectl.within(name)("create", "-f", "-", sent=model("iris"))
    kubectl("delete", "namespace", name, "--wait=false")
    planes.wait_until(lambda: not kubectl("get", "ns", name, "--ignore-not-found").out, "the namespace has gone")
    assert kubectl.within(name)("get", "models").out == ""
    assert "default" in kubectl("delete", "namespace", "default", code=1).err


def test_events_tell_what_happened(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=server("one"))
    planes.wait_until(lambda: "ContainersUnsupported" in kubectl("events").out, "the event is there")
    told = [line.split() for line in kubectl("events", "--for", "inferencemodel.mizzen.dev/one").out.splitlines()]
    assert told[0] == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert all("InferenceModel/one" in row for row in told[1:])
    assert "ContainersUnsupported" in kubectl("describe", "im", "one").out
    assert "ContainersUnsupported" in kubectl("get", "events").out
    assert kubectl("events", "--types=Warning", "-o", "name").code == 0


def _binding(name: str, subject: str, verb: str, target: dict[str, str]) -> dict[str, object]:
    spec = {"subjects": [subject], "verbs": [verb], "target": target}
    return {"apiVersion": API_VERSION, "kind": "RoleBinding", "metadata": {"name": name}, "spec": spec}
