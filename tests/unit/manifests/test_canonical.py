from __future__ import annotations

from typing import Any

import pytest

from mizzen.manifests import canonical


def model(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"kind": "Model", "metadata": {"name": "iris", **metadata}, "spec": spec}


def test_equal_objects_differ_in_nothing_whatever_the_plane_adds() -> None:
    live = model({"b": 1, "a": 2}, uid="x", annotations={"mizzen.dev/actor": "ann"}, labels={})
    assert canonical.difference(live, model({"a": 2, "b": 1}), source="f.yaml") == ""


def test_a_difference_reads_from_live_to_file() -> None:
    text = canonical.difference(model({"track": "manual"}), model({"track": "latest"}), source="f.yaml")
    assert text.splitlines() == [
        "--- live Model/iris", "+++ f.yaml Model/iris", "@@ -1,2 +1,2 @@", " spec:", "-  track: manual",
        "+  track: latest",
    ]  # fmt: skip


@pytest.mark.parametrize("spec", [{}, {"track": "latest"}])
def test_what_is_not_there_yet_is_all_new(spec: dict[str, Any]) -> None:
    lines = canonical.difference(None, model(spec), source="f.yaml").splitlines()
    assert lines[0] == "--- /dev/null"
    assert all(line.startswith("+") for line in lines[3:])
    assert len(lines) > 3


def test_labels_and_annotations_count() -> None:
    live = model({}, labels={"a": "1"}, annotations={"note": "x"})
    text = canonical.difference(live, model({}, labels={"a": "2"}), source="f")
    assert "-  annotations:" in text
    assert "+    a: '2'" in text
