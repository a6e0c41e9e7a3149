"""Keywords that are declared once: signatures list them, and others are rejected at once."""

from __future__ import annotations

import inspect
from typing import Any, Unpack

import pytest

import mizzen
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.keywords import EnvironmentKeywords, VersionKeywords, takes
from tests.support.golden import Golden


@takes(EnvironmentKeywords)
def prepare(name: str, *, wait: bool = True, **options: Unpack[EnvironmentKeywords]) -> dict[str, Any]:
    """Prepare."""
    return {"name": name, "wait": wait, **options}


def test_signatures_list_the_keywords_with_their_defaults(golden: Golden) -> None:
    assert list(inspect.signature(prepare).parameters) == ["name", "wait", "requirements", "python"]
    parameters = inspect.signature(mizzen.Model.add_version).parameters
    assert set(VersionKeywords.__annotations__) < set(parameters)
    assert (parameters["training"].default, parameters["git"].default) == (False, None)
    golden.check(parameters["labels"].annotation)


def test_only_given_keywords_are_passed_on() -> None:
    assert prepare("iris", python="3.12") == {"name": "iris", "wait": True, "python": "3.12"}


def test_unknown_keywords_are_rejected_before_anything_happens() -> None:
    wrong: Any = prepare
    with pytest.raises(TypeError, match=r"prepare\(\) got an unexpected keyword argument 'pyton'"):
        wrong("iris", pyton="3.12")


def test_synchronous_calls_have_the_signatures_of_the_asynchronous_ones() -> None:
    for name in ("scale", "apply", "wait", "permit", "usage"):
        assert inspect.signature(getattr(mizzen.Plane, name)) == inspect.signature(getattr(AsyncPlane, name))
        assert getattr(mizzen.Plane, name).__doc__
