"""kubectl creates and changes objects one at a time; and what it says when it is refused."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.conformance.kubectl import API_VERSION, Kubectl, model, server


def test_an_object_is_created_once(kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", sent=model("iris")).out == "model.mizzen.dev/iris created\n"
    refused = kubectl("create", "-f", "-", sent=model("iris"), code=1).err
    assert refused.startswith("Error from server (AlreadyExists): ")


def test_several_objects_are_created_and_what_is_wrong_is_told(kubectl: Kubectl) -> None:
    done = kubectl.tried("create", "-f", "-", sent=[model("iris"), model("Wrong Name"), model("wine")])
    assert done.code == 1
    assert done.out.split() == ["model.mizzen.dev/iris", "created", "model.mizzen.dev/wine", "created"]
    assert 'The Model "Wrong Name" is invalid: metadata.name: ' in done.err


def test_an_object_is_patched_by_merging(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=model("iris", framework="onnx", aliases={"a": "1", "b": "2"}))
    patch = ("patch", "model", "iris", "--type", "merge", "-p")
    assert kubectl(*patch, '{"spec": {"aliases": {"a": null, "c": "3"}}}').out == "model.mizzen.dev/iris patched\n"
    assert kubectl.json("get", "model", "iris")["spec"] == {"framework": "onnx", "aliases": {"b": "2", "c": "3"}}
    assert kubectl(*patch, '{"spec": {"framework": "onnx"}}').out == "model.mizzen.dev/iris patched (no change)\n"


def test_an_object_is_patched_by_steps(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=model("iris", framework="onnx"))
    patch = ("patch", "model", "iris", "--type", "json", "-p")
    test = '{"op": "test", "path": "/spec/framework", "value": "onnx"}'
    kubectl(*patch, f'[{test}, {{"op": "remove", "path": "/spec/framework"}}]')
    assert kubectl.json("get", "model", "iris")["spec"] == {}
    refused = kubectl(*patch, f"[{test}]", code=1).err
    assert "operation 0 of the JSON patch does not fit: there is no /spec/framework" in refused


def test_a_strategic_patch_is_refused_with_words(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=model("iris"))
    refused = kubectl("patch", "model", "iris", "-p", '{"spec": {"framework": "onnx"}}', code=1).err
    assert "application/strategic-merge-patch+json is not supported by mizzen.dev/v1alpha1, Kind=Model" in refused


def test_an_object_is_replaced(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=model("iris", {"a": "1"}, track="manual"))
    assert kubectl("replace", "-f", "-", sent=model("iris", framework="onnx")).out == "model.mizzen.dev/iris replaced\n"
    after = kubectl.json("get", "model", "iris")
    assert (after["spec"], "labels" in after["metadata"]) == ({"framework": "onnx"}, False)
    refused = kubectl("replace", "-f", "-", sent=model("wine"), code=1).err
    assert "NotFound" in refused


def test_what_was_read_long_ago_replaces_nothing(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=model("iris"))
    read = yaml.safe_load(kubectl("get", "model", "iris", "-o", "yaml").out)
    kubectl("label", "model", "iris", "a=1")
    refused = kubectl("replace", "-f", "-", sent=read, code=1).err
    assert refused.startswith("Error from server (Conflict): ")
    assert "changed since it was read" in refused
    kubectl("apply", "--server-side", "-f", "-", sent=_with_version(read), code=1)
    fresh = yaml.safe_load(kubectl("get", "model", "iris", "-o", "yaml").out)
    kubectl("replace", "-f", "-", sent=fresh | {"spec": {"framework": "onnx"}})


def test_an_object_is_replaced_by_force(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=model("iris"))
    before = kubectl.json("get", "model", "iris")["metadata"]["uid"]
    kubectl("replace", "--force", "-f", "-", sent=model("iris", framework="onnx"))
    assert kubectl.json("get", "model", "iris")["metadata"]["uid"] != before


def test_an_object_is_edited(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", sent=model("iris", track="manual"))
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/manual/latest/ "$1"\n')
    editor.chmod(0o700)
    assert kubectl("edit", "model", "iris", EDITOR=str(editor)).out == "model.mizzen.dev/iris edited\n"
    assert kubectl.json("get", "model", "iris")["spec"] == {"track": "latest"}
    assert "no changes made" in kubectl("edit", "model", "iris", EDITOR=str(editor)).err
    editor.write_text('#!/bin/sh\nsed -i s/latest/lately/ "$1"\n')
    refused = kubectl("edit", "model", "iris", EDITOR=str(editor), code=1).err
    assert 'models.mizzen.dev "iris" is invalid' in refused
    kept = [path.read_text() for path in kubectl.home.glob("kubectl-edit-*.yaml")]
    assert any("# * spec.track: 'lately' is not a valid value" in text for text in kept)


def test_labels_and_annotations_come_and_go(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=model("iris"))
    assert kubectl("label", "model", "iris", "a=1").out == "model.mizzen.dev/iris labeled\n"
    assert "already has a value (1)" in kubectl("label", "model", "iris", "a=2", code=1).err
    kubectl("label", "model", "iris", "a=2", "b=3", "--overwrite")
    assert kubectl("label", "model", "iris", "a-").out == "model.mizzen.dev/iris unlabeled\n"
    assert kubectl("annotate", "model", "iris", "note=some words").out == "model.mizzen.dev/iris annotated\n"
    metadata = kubectl.json("get", "model", "iris")["metadata"]
    assert metadata["labels"] == {"b": "3"}
    assert metadata["annotations"]["note"] == "some words"
    kubectl("annotate", "models", "--all", "note-")
    assert "note" not in kubectl.json("get", "model", "iris")["metadata"]["annotations"]


def test_servers_are_scaled(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=server("one"))
    assert kubectl("scale", "inferencemodel", "one", "--replicas", "3").out == "inferencemodel.mizzen.dev/one scaled\n"
    assert kubectl.json("get", "im", "one")["spec"]["replicas"] == 3
    assert "was 3" in kubectl("scale", "im/one", "--current-replicas", "1", "--replicas", "2", code=1).err
    kubectl("scale", "im/one", "--current-replicas", "3", "--replicas", "2")
    assert kubectl("get", "im", "one", "--subresource", "scale", "-o", "jsonpath={.spec.replicas}").out == "2"
    kubectl("create", "-f", "-", sent=model("iris"))
    assert "NotFound" in kubectl("scale", "model", "iris", "--replicas", "2", code=1).err


def test_a_status_is_read_and_patched(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", sent=server("one"))
    assert kubectl.json("get", "im", "one", "--subresource", "status")["kind"] == "InferenceModel"
    patch = ("patch", "im", "one", "--subresource", "status", "--type", "merge", "-p")
    told = kubectl(*patch, '{"status": {"url": "http://127.0.0.1:1"}, "spec": {"replicas": 9}}').out
    assert told.startswith("inferencemodel.mizzen.dev/one patched")
    assert "replicas" not in kubectl.json("get", "im", "one")["spec"], "the rest of the object is not its business"


def test_unknown_fields_are_refused_warned_of_or_ignored(kubectl: Kubectl) -> None:
    wrong = model("iris", framework="onnx", trck="manual")
    told = "spec: unknown field 'trck'; did you mean 'track'?"
    for words in (("create",), ("apply",), ("apply", "--server-side")):
        assert kubectl(*words, "-f", "-", sent=wrong, code=1).err == f'The Model "iris" is invalid: {told}\n'
    done = kubectl("create", "-f", "-", "--validate=warn", sent=wrong)
    assert (done.out, done.err) == ("model.mizzen.dev/iris created\n", f"Warning: {told}\n")
    assert kubectl.json("get", "model", "iris")["spec"] == {"framework": "onnx"}
    assert kubectl("apply", "--server-side", "--force-conflicts", "--validate=ignore", "-f", "-", sent=wrong).err == ""
    assert kubectl("apply", "--validate=ignore", "-f", "-", sent=wrong | model("wine", trck="x")).err == ""


def test_all_that_is_wrong_is_told_at_once(kubectl: Kubectl) -> None:
    wrong = model("iris", framework=1, track="mnual")
    refused = kubectl("create", "-f", "-", sent=wrong, code=1).err
    assert refused.startswith('The Model "iris" is invalid:')
    assert "spec.track: 'mnual' is not a valid value; did you mean 'manual'?" in refused
    assert "spec.framework: " in refused


def test_what_is_odd_is_warned_of(kubectl: Kubectl) -> None:
    done = kubectl("create", "-f", "-", sent=server("one", targetVersion="1"))
    assert "Warning: spec.image: targetVersion is ignored, because an image is given" in done.err


def test_what_controllers_write_nobody_else_does(kubectl: Kubectl) -> None:
    for kind, told in (("Workload", "write the object that owns it"), ("Revision", "change that object instead")):
        sent = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "w"}, "spec": {}}
        for words in (("create", "-f", "-"), ("apply", "-f", "-"), ("apply", "--server-side", "-f", "-")):
            refused = kubectl(*words, sent=sent, code=1).err
            assert "(Forbidden)" in refused
            assert told in refused


def _with_version(read: dict[str, object]) -> dict[str, object]:
    """As somebody applies what they read: all that was in it then, but not who owned what."""
    metadata = read["metadata"]
    assert isinstance(metadata, dict)
    kept = {name: metadata[name] for name in ("name", "resourceVersion")}
    return {"apiVersion": read["apiVersion"], "kind": read["kind"], "metadata": kept, "spec": read["spec"]}
