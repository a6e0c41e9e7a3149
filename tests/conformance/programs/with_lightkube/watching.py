"""lightkube watches, goes on where it was, begins anew when that is too long ago, and waits for conditions."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from lightkube import ApiError, Client, operators
from lightkube.core.exceptions import ObjectDeleted
from lightkube.types import OnErrorAction, OnErrorResult, PatchType

from tests.conformance.programs.with_lightkube.session import Model, client, model, refused

KEPT = 100
"""Changes that the plane of these tests keeps."""


def changes_are_told_in_their_order(namespace: str) -> None:
    with client(namespace) as ours:
        ours.create(model("iris"))
        ours.wait(Model, "iris", for_conditions=["Accepted"])
        seen = ours.watch(Model, server_timeout=30)
        assert _told(next(seen)) == ("ADDED", "iris")
        _label(ours, "iris", "1")
        kind, changed = next(seen)
        assert (kind, changed.metadata.labels) == ("MODIFIED", {"at": "1"})
        ours.delete(Model, "iris")
        assert ("DELETED", "iris") in map(_told, seen)


def a_watch_goes_on_from_a_version(namespace: str) -> None:
    with client(namespace) as ours:
        ours.create(model("iris"))
        ours.wait(Model, "iris", for_conditions=["Accepted"])
        listing = ours.list(Model)
        assert len(list(listing)) == 1
        _label(ours, "iris", "1")
        _label(ours, "iris", "2")
        seen = islice(ours.watch(Model, resource_version=listing.resourceVersion), 2)
        assert [one.metadata.labels["at"] for _, one in seen] == ["1", "2"]


def a_watch_that_the_server_ends_is_taken_up_again(namespace: str) -> None:
    """For longer than an answer lasts, each change is told once."""
    with client(namespace) as ours:
        ours.create(model("iris"))
        seen = ours.watch(Model, server_timeout=1, resource_version=_version(ours))
        versions: list[int] = []
        begun, number = time.monotonic(), 0
        while time.monotonic() < begun + 1.5:
            number += 1
            _label(ours, "iris", str(number))
            for _, one in seen:
                versions.append(int(one.metadata.resourceVersion))
                if (one.metadata.labels or {}).get("at") == str(number):
                    break
        assert versions == sorted(set(versions))


def only_what_is_selected_is_told(namespace: str) -> None:
    with client(namespace) as ours:
        ours.create(model("iris", {"at": "0"}))
        ours.wait(Model, "iris", for_conditions=["Accepted"])
        seen = ours.watch(Model, labels={"at": "0"})
        assert _told(next(seen)) == ("ADDED", "iris")
        ours.create(model("wine", {"at": "1"}))
        _label(ours, "iris", "1")
        assert _told(next(seen)) == ("DELETED", "iris"), "it is not among them any more"
        for fields in ({"metadata.name": "wine"}, {"metadata.name": operators.not_equal("iris")}):
            named = ours.watch(Model, fields=fields)
            assert _told(next(named)) == ("ADDED", "wine")


def what_is_too_long_ago_begins_anew(namespace: str) -> None:
    with client(namespace) as ours:
        ours.create(model("iris"))
        old = _version(ours)
        for number in range(KEPT + 1):
            _label(ours, "iris", str(number))
        status = refused(410, lambda: next(ours.watch(Model, resource_version=old)))
        assert status.reason == "Expired"
        errors: list[ApiError] = []
        seen = ours.watch(Model, resource_version=old, on_error=_once(errors))
        assert _told(next(seen)) == ("ADDED", "iris"), "it lists again by itself"
        assert [error.status.code for error in errors] == [410]


def a_condition_is_waited_for(namespace: str) -> None:
    with client(namespace) as ours:
        ours.create(model("iris"))
        done = ours.wait(Model, "iris", for_conditions=["Accepted"])
        assert [one["status"] for one in done.status["conditions"] if one["type"] == "Accepted"] == ["True"]
        held = {"metadata": {"finalizers": ["example.com/hold"]}}
        ours.patch(Model, "iris", held, patch_type=PatchType.MERGE)
        ours.delete(Model, "iris")
        seen = ours.watch(Model, fields={"metadata.name": "iris"})
        assert _told(next(seen))[0] == "ADDED"
        ours.patch(Model, "iris", {"metadata": {"finalizers": None}}, patch_type=PatchType.MERGE)
        assert "DELETED" in (kind for kind, _ in seen)


def who_waits_is_told_that_it_was_deleted(namespace: str) -> None:
    with client(namespace) as ours, client(namespace) as theirs, ThreadPoolExecutor(1) as aside:
        waiting = aside.submit(ours.wait, Model, "iris", for_conditions=["Never"])
        while not waiting.done():
            theirs.create(model("iris"))
            theirs.delete(Model, "iris")
        error = waiting.exception()
        assert isinstance(error, ObjectDeleted)
        assert str(error) == "models/iris was unexpectedly deleted"


def _told(event: tuple[str, Any]) -> tuple[str, str]:
    return event[0], event[1].metadata.name


def _label(ours: Client, name: str, value: str) -> None:
    ours.patch(Model, name, {"metadata": {"labels": {"at": value}}}, patch_type=PatchType.MERGE)


def _version(ours: Client) -> str:
    listing = ours.list(Model)
    list(listing)
    return str(listing.resourceVersion)


def _once(errors: list[ApiError]) -> Callable[[ApiError, int], OnErrorResult]:
    def on_error(error: ApiError, count: int) -> OnErrorResult:
        errors.append(error)
        return OnErrorResult(OnErrorAction.RETRY if count == 1 else OnErrorAction.RAISE)

    return on_error
