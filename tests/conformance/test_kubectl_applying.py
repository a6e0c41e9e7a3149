"""kubectl applies files: from its own side, and from the server's, where several people may own one object."""

from __future__ import annotations

from typing import Any

from tests.conformance.kubectl import Kubectl, model, version
from tests.support import planes

SERVER = ("apply", "--server-side", "-f", "-")
LAST = "kubectl.kubernetes.io/last-applied-configuration"


def test_a_file_is_applied(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", sent=model("iris", track="manual")).out == "model.mizzen.dev/iris created\n"
    first = _quiet(kubectl)
    assert kubectl("apply", "-f", "-", sent=model("iris", track="manual")).out == "model.mizzen.dev/iris unchanged\n"
    assert kubectl.json("get", "model", "iris", "--show-managed-fields") == first
    done = kubectl("apply", "-f", "-", sent=model("iris", framework="onnx"))
    assert (done.out, done.err) == ("model.mizzen.dev/iris configured\n", "")
    after = kubectl.json("get", "model", "iris")
    assert after["spec"] == {"framework": "onnx"}, "what was applied before and is left out now has gone"
    assert after["metadata"]["generation"] == 2
    assert LAST in after["metadata"]["annotations"]
    [manager] = _managers(kubectl)
    assert (manager["manager"], manager["operation"]) == ("kubectl-client-side-apply", "Update")


def test_what_others_set_stays_when_a_file_is_applied(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", sent=model("iris", {"team": "a"}, framework="onnx"))
    kubectl("label", "model", "iris", "mine=1")
    kubectl("apply", "-f", "-", sent=model("iris", {"team": "b"}, framework="onnx"))
    assert kubectl.json("get", "model", "iris")["metadata"]["labels"] == {"team": "b", "mine": "1"}


def test_an_object_that_was_created_can_be_applied_to(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=model("iris"))
    done = kubectl("apply", "-f", "-", sent=model("iris", framework="onnx"))
    assert "missing the kubectl.kubernetes.io/last-applied-configuration annotation" in done.err
    assert done.out == "model.mizzen.dev/iris configured\n"


def test_a_file_is_applied_on_the_server(kubectl: Kubectl) -> None:
    sent = model("iris", {"team": "a"}, track="manual")
    assert kubectl(*SERVER, sent=sent).out == "model.mizzen.dev/iris serverside-applied\n"
    [manager] = _managers(kubectl)
    assert (manager["manager"], manager["operation"]) == ("kubectl", "Apply")
    assert manager["fieldsV1"] == {
        "f:metadata": {"f:labels": {"f:team": {}}},
        "f:spec": {"f:track": {}},
    }
    assert kubectl.json("get", "model", "iris")["metadata"]["annotations"].keys() == {"mizzen.dev/actor"}
    kubectl(*SERVER, sent=model("iris", framework="onnx"))
    after = kubectl.json("get", "model", "iris")
    assert after["spec"] == {"framework": "onnx"}
    assert "labels" not in after["metadata"]


def test_applying_the_same_again_changes_nothing(kubectl: Kubectl) -> None:
    kubectl(*SERVER, sent=model("iris", {"team": "a"}))
    before = _quiet(kubectl)
    kubectl(*SERVER, sent=model("iris", {"team": "a"}))
    assert kubectl.json("get", "model", "iris", "--show-managed-fields") == before


def test_two_managers_own_what_they_apply(kubectl: Kubectl) -> None:
    kubectl(*SERVER, sent=model("iris", {"a": "1"}, framework="onnx"))
    kubectl(*SERVER, "--field-manager", "other", sent=model("iris", {"b": "2"}, framework="onnx"))
    assert kubectl.json("get", "model", "iris")["metadata"]["labels"] == {"a": "1", "b": "2"}
    kubectl(*SERVER, sent=model("iris", {"c": "3"}, track="manual"))
    after = kubectl.json("get", "model", "iris")
    assert after["metadata"]["labels"] == {"b": "2", "c": "3"}
    assert after["spec"] == {"framework": "onnx", "track": "manual"}, "it has another owner"


def test_a_field_of_another_manager_is_a_conflict(kubectl: Kubectl) -> None:
    kubectl(*SERVER, sent=model("iris", framework="onnx", track="manual"))
    others = model("iris", framework="sklearn", track="latest")
    refused = kubectl(*SERVER, "--field-manager", "other", sent=others, code=1).err
    for told in ("Apply failed with 2 conflicts", '"kubectl"', ".spec.framework", ".spec.track", "--force-conflicts"):
        assert told in refused
    assert kubectl.json("get", "model", "iris")["spec"]["framework"] == "onnx"
    kubectl(*SERVER, "--field-manager", "other", "--force-conflicts", sent=others)
    assert kubectl.json("get", "model", "iris")["spec"] == {"framework": "sklearn", "track": "latest"}
    assert [manager["manager"] for manager in _managers(kubectl)] == ["other"]
    assert "conflict" in kubectl(*SERVER, sent=model("iris", framework="onnx"), code=1).err


def test_a_field_that_was_patched_is_a_conflict_too(kubectl: Kubectl) -> None:
    kubectl(*SERVER, sent=model("iris", framework="onnx"))
    kubectl("patch", "model", "iris", "--type", "merge", "-p", '{"spec": {"framework": "sklearn"}}')
    refused = kubectl(*SERVER, sent=model("iris", framework="onnx"), code=1).err
    assert 'conflict with "kubectl-patch": .spec.framework' in refused


def test_an_alias_that_was_set_is_a_conflict_too(plane: planes.TestPlane, kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=[model("iris"), version("iris", "1"), version("iris", "2")])
    plane.cli("alias", "set", "iris", "prod", "1", "-n", kubectl.namespace)
    sent = model("iris", framework="sklearn", aliases={"prod": "2"})
    refused = kubectl(*SERVER, sent=sent, code=1).err
    assert 'conflict with "mizzen": .spec.aliases.prod' in refused
    kubectl(*SERVER, "--force-conflicts", sent=sent)
    assert kubectl.json("get", "model", "iris")["spec"]["aliases"] == {"prod": "2"}
    story = "admin pointed alias 'prod' at version 1"
    planes.wait_until(lambda: story in kubectl("describe", "model", "iris").out, "who set it is told")


def test_who_applied_from_the_client_goes_on_from_the_server(kubectl: Kubectl) -> None:
    """kubectl hands its fields over by itself, once the same is applied in the new way."""
    sent = model("iris", {"team": "a"}, framework="onnx")
    kubectl("apply", "-f", "-", sent=sent)
    assert kubectl(*SERVER, sent=sent).out == "model.mizzen.dev/iris serverside-applied\n"
    owning = [(manager["manager"], manager["operation"]) for manager in _managers(kubectl)]
    assert ("kubectl-client-side-apply", "Update") not in owning
    assert ("kubectl", "Apply") in owning
    kubectl(*SERVER, sent=model("iris", track="manual"))
    after = kubectl.json("get", "model", "iris")
    assert (after["metadata"].get("labels"), after["spec"]) == (None, {"track": "manual"}), "nobody else owns these now"


def test_a_difference_is_shown(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", sent=model("iris", framework="onnx"))
    assert kubectl("diff", "-f", "-", sent=model("iris", framework="onnx")).out == ""
    told = kubectl("diff", "-f", "-", sent=model("iris", framework="sklearn"), code=1).out
    assert "\n-  framework: onnx\n+  framework: sklearn\n" in told
    assert "\n+  name: wine\n" in kubectl("diff", "-f", "-", sent=model("wine"), code=1).out
    assert kubectl.tried("diff", "-f", "-", sent=model("iris", framwork="sklearn")).code > 1
    assert kubectl("get", "models", "-o", "name").out == "model.mizzen.dev/iris\n"
    assert kubectl.json("get", "model", "iris")["spec"] == {"framework": "onnx"}


def test_a_difference_is_shown_of_what_the_server_would_apply(kubectl: Kubectl) -> None:
    kubectl(*SERVER, sent=model("iris", framework="onnx"))
    assert kubectl("diff", "--server-side", "-f", "-", sent=model("iris", framework="onnx")).out == ""
    told = kubectl("diff", "--server-side", "-f", "-", sent=model("iris", track="manual"), code=1).out
    assert "\n-  framework: onnx\n+  track: manual\n" in told


def test_what_is_not_in_the_files_any_more_is_pruned(kubectl: Kubectl) -> None:
    apply = ("apply", "-f", "-", "-l", "set=a", "--prune", "--prune-allowlist", "mizzen.dev/v1alpha1/Model")
    kubectl(*apply, sent=[model("iris", {"set": "a"}), model("wine", {"set": "a"})])
    kubectl("apply", "-f", "-", sent=[model("other", {"set": "b"})])
    kubectl("create", "-f", "-", sent=[model("created", {"set": "a"})])
    told = kubectl(*apply, sent=model("iris", {"set": "a"})).out
    assert "model.mizzen.dev/iris unchanged" in told
    assert "model.mizzen.dev/wine pruned" in told
    left = kubectl("get", "models", "-o", "jsonpath={.items[*].metadata.name}").out.split()
    assert left == ["created", "iris", "other"]


def test_what_is_only_tried_is_not_written(kubectl: Kubectl) -> None:
    for words in (("apply",), ("apply", "--server-side"), ("create",)):
        done = kubectl(*words, "--dry-run=server", "-f", "-", sent=model("iris"))
        assert done.out.endswith("(server dry run)\n")
    assert kubectl("get", "models").out == ""
    kubectl("apply", "--dry-run=server", "-f", "-", sent=model("iris", framwork="x"), code=1)


def _managers(kubectl: Kubectl) -> list[dict[str, Any]]:
    whole = kubectl.json("get", "model", "iris", "--show-managed-fields")
    found: list[dict[str, Any]] = whole["metadata"]["managedFields"]
    return found


def _quiet(kubectl: Kubectl) -> dict[str, Any]:
    """Once its controller has nothing more to report."""

    def seen() -> dict[str, Any] | None:
        found: dict[str, Any] = kubectl.json("get", "model", "iris", "--show-managed-fields")
        done = found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
        return found if done else None

    return planes.wait_until(seen, "the controller has reported") or {}
