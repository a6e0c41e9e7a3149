"""kubectl deletes objects, and waits for things."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.conformance.kubectl import Kubectl, model, server
from tests.support import planes


def test_an_object_is_deleted(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=[model("iris"), model("wine")])
    assert kubectl("delete", "model", "iris").out.startswith('model.mizzen.dev "iris" deleted')
    assert kubectl("get", "models", "-o", "name").out == "model.mizzen.dev/wine\n"
    assert "(NotFound)" in kubectl("delete", "model", "iris", code=1).err
    assert kubectl("delete", "model", "iris", "--ignore-not-found").out == ""
    assert kubectl("delete", "-f", "-", sent=model("wine")).out.startswith('model.mizzen.dev "wine" deleted')


def test_objects_are_deleted_by_their_labels(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=[model("a", {"set": "1"}), model("b", {"set": "1"}), model("c")])
    kubectl("delete", "models", "-l", "set=1")
    assert kubectl("get", "models", "-o", "name").out == "model.mizzen.dev/c\n"
    kubectl("delete", "models", "--all")
    assert kubectl("get", "models").out == ""


def test_what_is_in_use_is_only_deleted_in_the_foreground(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=[model("iris"), server("one")])
    refused = kubectl("delete", "model", "iris", "--cascade=background", code=1).err
    assert "(Conflict)" in refused
    assert "is in use: InferenceModel" in refused
    kubectl("delete", "model", "iris", "--cascade=foreground", "--wait=false")
    left = ("get", "models,inferencemodels", "-o", "name")
    planes.wait_until(lambda: not kubectl(*left).out, "the server goes first, then the model")


def test_nothing_is_orphaned(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=model("iris"))
    refused = kubectl("delete", "model", "iris", "--cascade=orphan", code=1).err
    assert "objects are deleted with their owner" in refused
    assert kubectl("get", "models", "-o", "name").out == "model.mizzen.dev/iris\n"


def test_a_deletion_is_only_tried(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=[model("iris"), server("one")])
    assert "(server dry run)" in kubectl("delete", "im", "one", "--dry-run=server").out
    assert "is in use" in kubectl("delete", "model", "iris", "--dry-run=server", code=1).err
    assert kubectl("get", "im", "one", "-o", "jsonpath={.metadata.deletionTimestamp}").out == ""


@pytest.mark.parametrize("released", ["null", "[]"])
def test_a_finalizer_holds_an_object(kubectl: Kubectl, released: str) -> None:
    name = "held" if released == "null" else "kept"
    kubectl("create", "-f", "-", sent=model(name))
    patch = ("patch", "model", name, "--type", "merge", "-p")
    kubectl(*patch, '{"metadata": {"finalizers": ["example.com/hold"]}}')
    kubectl("delete", "model", name, "--wait=false")
    metadata = kubectl.json("get", "model", name)["metadata"]
    assert metadata["finalizers"] == ["example.com/hold"]
    assert metadata["deletionTimestamp"]
    assert "timed out" in kubectl("delete", "model", name, "--timeout=1s", code=1).err
    kubectl(*patch, json.dumps({"metadata": {"finalizers": json.loads(released)}}))
    assert "(NotFound)" in kubectl("get", "model", name, code=1).err


@pytest.mark.timeout(60)
def test_it_waits_for_a_condition(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=model("iris"))
    done = kubectl("wait", "--for=condition=Accepted", "model/iris", "--timeout=60s")
    assert done.out == "model.mizzen.dev/iris condition met\n"
    kubectl("create", "-f", "-", sent=server("one"))
    assert "timed out" in kubectl("wait", "--for=condition=Ready", "im/one", "--timeout=1s", code=1).err


@pytest.mark.timeout(60)
def test_it_waits_for_a_value(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=model("iris"))
    with kubectl.going("wait", "--for=jsonpath={.spec.framework}=onnx", "model/iris", "--timeout=60s") as waiting:
        kubectl("patch", "model", "iris", "--type", "merge", "-p", '{"spec": {"framework": "onnx"}}')
        assert waiting.wait(20) == 0


@pytest.mark.timeout(60)
def test_it_waits_until_something_is_there(kubectl: Kubectl) -> None:
    with kubectl.going("wait", "--for=create", "model/iris", "--timeout=60s") as waiting:
        kubectl("create", "-f", "-", sent=model("iris"))
        assert waiting.wait(20) == 0


@pytest.mark.timeout(60)
def test_it_waits_until_something_has_gone(kubectl: Kubectl) -> None:
    assert kubectl("wait", "--for=delete", "model/none", "--timeout=60s").code == 0
    kubectl("create", "-f", "-", sent=model("iris"))
    kubectl("patch", "model", "iris", "--type", "merge", "-p", '{"metadata": {"finalizers": ["example.com/hold"]}}')
    with kubectl.going("delete", "model", "iris", "--timeout=60s") as deleting:
        with pytest.raises(subprocess.TimeoutExpired):
            deleting.wait(1)
        kubectl("patch", "model", "iris", "--type", "merge", "-p", '{"metadata": {"finalizers": null}}')
        assert deleting.wait(20) == 0


@pytest.mark.timeout(60)
def test_a_deletion_waits_for_what_has_to_be_ended_first(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=server("one"))
    kubectl("delete", "im", "one", "--timeout=60s")
    assert "(NotFound)" in kubectl("get", "im", "one", code=1).err
