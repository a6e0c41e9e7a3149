from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import mizzen
from mizzen import errors
from mizzen.kinds.schema.resource import Ref
from mizzen.sdk.client import AsyncPlane
from mizzen.sdk.connection import locate
from mizzen.sdk.handles.loop_thread import LoopThread
from mizzen.sdk.packaging import upload
from mizzen.supervisor.protocol import Listener
from tests.support.golden import Golden
from tests.support.server.harness import TOKEN, Harness, serving
from tests.support.supervised import supervised

MODEL = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": {"name": "iris"}}


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
        assert plane.usage()["models"] == plane.usage_history("iris")["series"] == []
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
    with pytest.raises(errors.Invalid, match="'prot' is not a valid setting") as caught:
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


def test_the_package_shows_what_it_offers_and_has_every_error() -> None:
    family = {sort.__name__: sort for sort in errors.FAMILY.values()}
    assert set(family) | {"connect", "start", "Plane", "Model"} <= set(dir(mizzen))
    assert {name: getattr(mizzen, name) for name in family} == family
    assert all(getattr(mizzen, name) is not None for name in mizzen.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mizzen.nothing  # noqa: B018


def test_an_error_printed_has_its_hint(control: Harness, golden: Golden) -> None:
    with mizzen.connect(control.url, TOKEN) as plane, pytest.raises(mizzen.NotFound) as caught:
        plane.get("modles", "iris")
    golden.check(str(caught.value))


def test_objects_are_deleted_with_what_is_in_the_way_and_until_they_are_gone(control: Harness) -> None:
    with mizzen.connect(control.url, TOKEN) as plane:
        plane.deploy("iris", control.file("model.joblib"), wait=False)
        with pytest.raises(mizzen.Conflict, match="cascade=True in Python") as caught:
            plane.delete("model", "iris")
        assert caught.value.hint in str(caught.value)
        plane.delete("Model", "iris", cascade=True, wait=False)
        control.release(Ref("InferenceModel", "iris-1"))
        with pytest.raises(mizzen.Invalid, match="cascade applies only to models"):
            plane.delete("node", "edge", cascade=True)
        plane.apply({
            "apiVersion": "mizzen.dev/v1alpha1", "kind": "Node", "metadata": {"name": "edge", "namespace": "lab"},
            "spec": {"layer": "edge"},
        })  # fmt: skip
        plane.delete("node", "edge", namespace="lab")
        assert plane.list("nodes", namespace="lab") == []


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


def test_what_is_wrong_with_manifests_stands_in_the_error_itself(control: Harness) -> None:
    bad = {
        "apiVersion": "mizzen.dev/v1alpha1",
        "kind": "Model",
        "metadata": {"name": "iris"},
        "spec": {"framwork": "x"},
    }
    with mizzen.connect(control.url, TOKEN) as plane, pytest.raises(errors.Invalid) as caught:
        plane.apply(bad)
    assert "unknown field 'framwork'" in str(caught.value)


def test_times_of_a_models_past_are_written_as_on_the_command_line(control: Harness) -> None:
    with mizzen.connect(control.url, TOKEN) as plane:
        model = plane.model("iris").create()
        assert model.history(at="1m") == []
        assert [entry["action"] for entry in model.history(at="0s")] == ["created"]
        with pytest.raises(errors.NotFound):
            model.as_of("1h")
        with pytest.raises(errors.Invalid, match="'soon' is not a valid time"):
            model.history(at="soon")


def test_any_object_is_explained_compared_and_gone_back_with(control: Harness) -> None:
    with mizzen.connect(control.url, TOKEN) as plane:
        model = plane.model("iris").create()
        for content in ("one", "two"):
            model.add_version(control.file("model.joblib", content))
        compared = plane.compare("iris:1", "iris:2")
        assert [(file.path, file.change) for file in compared.files] == [("model.joblib", "changed")]
        assert plane.explain("model.track")["default"] == "manual"
        for track in ("latest", "manual"):
            plane.apply({**MODEL, "spec": {"track": track}})
        assert [entry["action"] for entry in plane.revisions("Model", "iris")] == ["created", "updated", "updated"]
        assert plane.restore("Model", "iris").number == 2
        assert plane.get("Model", "iris")["spec"]["track"] == "latest"
        with pytest.raises(errors.Invalid, match="in the future"):
            model.as_of("2999-01-01")


def test_both_clients_delete_a_model_alike() -> None:
    sync, real = (inspect.signature(call).parameters for call in (mizzen.Model.delete, AsyncPlane.delete_model))
    assert {name: sync[name].default for name in ("cascade", "wait")} == {"cascade": False, "wait": True}
    assert all(real[name].default == sync[name].default for name in ("cascade", "wait"))


def test_what_cannot_be_meant_is_refused_in_words(control: Harness) -> None:
    with mizzen.connect(control.url, TOKEN) as plane:
        model = plane.model("iris").create()
        for refused in (model.permit, model.forbid):
            with pytest.raises(errors.Invalid, match="no verb was given"):
                refused("ana")
        with pytest.raises(errors.Invalid, match="'Bad Name' is not a valid model name"):
            _ = plane.model("Bad Name").versions
        with pytest.raises(errors.Invalid, match="'Bad Name' is not a valid model name"):
            plane.model("Bad Name").describe()


def test_a_version_has_one_source_by_position_or_by_name(control: Harness) -> None:
    with mizzen.connect(control.url, TOKEN) as plane:
        model = plane.model("iris").create()
        chosen: tuple[dict[str, Any], ...] = ({}, {"source": "a", "git": "b"}, {"git": {"repo": "b"}, "url": "c"})
        for sources in chosen:
            with pytest.raises(errors.Invalid, match="exactly one source"):
                model.add_version(**sources)
        with pytest.raises(errors.Invalid, match="url needs sha256"):
            model.add_version(url="https://example.org/m.tar.gz")
    git = {"repo": "https://example.org/m.git", "ref": "v1"}
    assert upload.choose_source(None, git, None, None) == {"git": git}
    assert upload.choose_source(None, "https://example.org/m.git@v1", None, None) == {"git": git}
    assert upload.choose_source(None, None, "u", "9f") == {"downloadURL": "u", "sha256sum": "9f"}


def test_a_secret_keeps_what_is_not_named(control: Harness) -> None:
    with mizzen.connect(control.url, TOKEN) as plane:
        plane.set_secret("db", {"user": "ann", "password": "hush"})
        plane.set_secret("db", {"user": "bob"})
        assert plane.secrets()[0]["keys"] == ["password", "user"]
        plane.set_secret("db", {"user": "eve"}, replace=True)
        assert plane.secrets()[0]["keys"] == ["user"]
