from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import mizzen
from mizzen import errors
from mizzen.sdk import locate
from mizzen.sdk.loop import LoopThread
from mizzen.supervisor.protocol import Listener
from tests.support.supervised import supervised
from tests.unit.server.harness import TOKEN, Harness, serving


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Harness]:
    with serving(tmp_path) as harness:
        yield harness


def test_calls_without_a_loop(control: Harness) -> None:
    with mizzen.connect(control.url, TOKEN) as plane:
        done = plane.deploy("iris", control.file("model.joblib"), wait=False)
        assert plane.get("Model", "iris")["metadata"]["name"] == "iris"
        assert [item["metadata"]["name"] for item in plane.list("inferencemodel")] == [done.server]
        model = plane.model("iris")
        assert [found.name for found in plane.models()] == [model.name]
        assert model.versions == ["1"]
        control.make_ready("iris-1", "1")
        before = model.current
        model.promote(1)
        assert (before, model.current) == (None, "1")
        assert model.history()[-1]["action"] == "promoted"
        assert next(plane.watch("models"))["object"]["metadata"]["name"] == "iris"
        with pytest.raises(errors.NotFound, match="nobody"):
            plane.model("nobody").promote(1)
        with pytest.raises(errors.BadRequest, match="on this machine"):
            plane.stop()


def test_stop_ends_the_plane_of_a_data_dir_and_may_be_repeated(tmp_path: Path) -> None:
    listeners = (Listener("control", "127.0.0.1", 0), Listener("inference", "127.0.0.1", 0))
    with supervised(tmp_path / "data") as running:
        running.start(running.spec("plane"), listeners=listeners)
        with mizzen.start(tmp_path / "data") as plane:
            assert plane.url == locate.in_data_dir(tmp_path / "data").control_url
            plane.stop()
            plane.stop()
        assert not locate.running(tmp_path / "data")


def test_leaving_a_plane_that_was_only_connected_to_ends_nothing(tmp_path: Path) -> None:
    listeners = (Listener("control", "127.0.0.1", 0), Listener("inference", "127.0.0.1", 0))
    with supervised(tmp_path / "data") as running:
        running.start(running.spec("plane"), listeners=listeners)
        with mizzen.start(tmp_path / "data"):
            pass
        running.running("plane")


def test_unknown_settings_are_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(errors.Invalid, match="no setting 'prot'") as caught:
        mizzen.start(tmp_path / "data", prot=0)
    assert "port" in caught.value.hint
    assert not (tmp_path / "data").exists()


def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(errors.Unavailable, match="loopback"):
        mizzen.start(tmp_path / "data", host="203.0.113.1")


def test_importing_the_package_loads_nothing_and_the_sdk_no_pydantic() -> None:
    code = (
        "import sys, mizzen; assert 'mizzen.sdk' not in sys.modules; mizzen.connect; "
        "assert 'mizzen.sdk' in sys.modules; bad = {'pydantic', 'mizzen.kinds'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_loop_thread_ends_what_is_left_early() -> None:
    ended = []

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(10):
                yield number
        finally:
            ended.append(True)

    loop = LoopThread()
    try:
        items = loop.iterate(numbers())
        assert next(items) == 0
        items.close()  # type: ignore[attr-defined]
        assert ended == [True]
        assert list(loop.iterate(numbers())) == list(range(10))
    finally:
        loop.close()
        loop.close()
