"""Whatever stands under spec, examining it answers, and answers the same for what is stored."""

from __future__ import annotations

import copy
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.application.spec import ApplicationSpec, find_needed_versions
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.kinds.text import expressions

EXAMPLES = Path(__file__).parents[3] / "examples/ml-platform"
MANIFESTS: dict[str, Any] = {
    name: yaml.safe_load((EXAMPLES / f"{name.lower()}.yaml").read_text())["spec"]
    for name in ("Application", "Initializer")
}
WORDS = st.sampled_from(
    ["name", "type", "properties", "components", "workflow", "workflows", "steps", "appTemplate", "spec", "tfjob",
     "tfserving", "predictors", "modelVersion", "suspend", "step-group", "subSteps", "dependsOn", "if", "a-v2", "a:b@c"]
)  # fmt: skip
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS | st.text()
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(), inner, max_size=4)
)


@pytest.mark.parametrize("kind", ["Application", "Initializer"])
@given(spec=ANYTHING)
def test_any_json_is_examined(kind: str, spec: Any) -> None:
    for strict in (True, False):
        catalog.find(kind).examine("it", spec, strict=strict)


def _places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(place for key, value in inner for place in _places(value, (*path, key)))]


def _with(data: Any, place: tuple[Any, ...], value: Any) -> Any:
    data = copy.deepcopy(data)
    at = data
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    return data


@pytest.mark.parametrize("kind", MANIFESTS)
@settings(deadline=None)  # the first one builds the types
@given(data=st.data())
def test_a_manifest_with_anything_in_one_place_is_examined(kind: str, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from([place for place in _places(MANIFESTS[kind]) if place]))
    spec = _with(MANIFESTS[kind], place, data.draw(ANYTHING))
    found = catalog.find(kind).examine("it", spec, Context())
    assert all(one.path == "" or one.path.startswith("spec") for one in found)
    if kind == "Application" and not found.faults:
        find_needed_versions(ApplicationSpec.of(Resource("Application", Meta("it"), spec)))


@given(data=st.data())
def test_a_stored_application_is_read_or_refused(data: st.DataObject) -> None:
    spec = MANIFESTS["Application"]
    place = data.draw(st.sampled_from([place for place in _places(spec) if place]))
    resource = Resource("Application", Meta("it"), _with(spec, place, data.draw(ANYTHING)))
    with suppress(Invalid):
        find_needed_versions(ApplicationSpec.of(resource))


@given(st.text() | st.text(alphabet="status.inpu[]()'\"!&|= a-1\\"))
def test_any_condition_is_judged(text: str) -> None:
    problem = expressions.problem(text, ("a",))
    assert problem is None or problem
