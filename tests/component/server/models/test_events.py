"""What people decide through /model is told to the Recorder, after it was written."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette

from mizzen.kinds.schema.resource import Resource
from mizzen.reconcile.recorder import EventNote, NullRecorder
from tests.support.server.harness import Harness, deploy, serving


class Listener(NullRecorder):
    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str]] = []

    def record_note(self, resource: Resource, note: EventNote) -> None:
        assert resource.meta.uid
        self.heard.append((str(resource.ref), note.reason, note.message))


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def plane(tmp_path: Path, listener: Listener) -> Iterator[Harness]:
    def listen(app: Starlette) -> None:
        app.state.context = dataclasses.replace(app.state.context, recorder=listener)

    with serving(tmp_path, change=listen) as harness:
        yield harness


def test_the_story_of_a_model_is_told(plane: Harness, listener: Listener) -> None:
    admin = plane.client()
    deploy(plane, admin)
    deploy(plane, admin, content="two")
    for version in (1, 2, 2):
        admin.post("/model/iris/current", json={"version": version})
    admin.post("/model/iris/rollback")
    for _ in range(2):
        admin.put("/model/iris/alias/prod", json={"version": 2})
    admin.delete("/model/iris/alias/prod")
    assert listener.heard == [
        ("Model/iris", "Served", "admin serves version 1 as iris-1"),
        ("Model/iris", "Served", "admin serves version 2 as iris-2"),
        ("Model/iris", "Promoted", "admin made version 1 current"),
        ("Model/iris", "Promoted", "admin made version 2 current, instead of version 1"),
        ("Model/iris", "RolledBack", "admin rolled back to version 1, instead of version 2"),
        ("Model/iris", "AliasSet", "admin pointed alias 'prod' at version 2"),
        ("Model/iris", "AliasRemoved", "admin removed alias 'prod'"),
    ]


def test_what_was_refused_is_not_told(plane: Harness, listener: Listener) -> None:
    admin = plane.client()
    deploy(plane, admin, ready=False)
    listener.heard.clear()
    assert admin.post("/model/iris/current", json={"version": 1}).status_code == 409
    assert admin.put("/model/iris/alias/prod", json={"version": 9}).status_code == 422
    assert admin.delete("/model/iris/alias/prod").status_code == 404
    assert admin.post("/model/iris/serve/9").status_code == 404
    assert listener.heard == []
