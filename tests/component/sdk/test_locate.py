from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mizzen.errors import BadRequest, Forbidden, Unavailable
from mizzen.sdk.connection import locate
from mizzen.supervisor import launch
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.protocol import Listener
from tests.support.golden import Golden
from tests.support.supervised import Supervised, supervised, until

LISTENERS = (Listener("control", "127.0.0.1", 0), Listener("inference", "127.0.0.1", 0))


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Supervised]:
    with supervised(tmp_path / "data") as running:
        running.start(listeners=LISTENERS)
        (tmp_path / "data" / "admin-token").write_text("secret\n")
        yield running


def test_what_is_given_wins_over_the_environment(plane: Supervised) -> None:
    data_dir = plane.home.data_dir
    environ = {"MIZZEN_URL": "http://elsewhere:1", "MIZZEN_TOKEN": "theirs", "MIZZEN_DATA_DIR": "/nowhere"}
    assert locate.find("http://here:2/", "mine", environ=environ).control_url == "http://here:2"
    assert locate.find("http://here:2", environ=environ).token == "theirs"
    assert locate.find(environ=environ).control_url == "http://elsewhere:1"
    assert locate.find(data_dir=data_dir, environ=environ).data_dir == data_dir


def test_the_data_dir_gives_both_addresses_and_the_token(plane: Supervised) -> None:
    place = locate.find(environ={"MIZZEN_DATA_DIR": str(plane.home.data_dir)})
    listeners = json.loads(plane.home.info.read_text())["listeners"]
    assert place.control_url == f"http://127.0.0.1:{listeners['control']['port']}"
    assert place.inference_url == f"http://127.0.0.1:{listeners['inference']['port']}"
    assert place.token == "secret"


@pytest.mark.parametrize(
    ("host", "named"),
    [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("localhost", "127.0.0.1"), ("0.0.0.0", "localhost")],
)
def test_the_address_with_tls_is_one_that_a_certificate_names(tmp_path: Path, host: str, named: str) -> None:
    with supervised(tmp_path / "data") as running:
        try:
            running.start(listeners=(*LISTENERS, Listener("control-tls", host, 0)))
        except launch.StartFailed:
            pytest.skip(f"{host} cannot be listened on here")
        port = json.loads(running.home.info.read_text())["listeners"]["control-tls"]["port"]
        found = locate.in_data_dir(running.home.data_dir).tls_url
        assert found is not None
        assert found.removeprefix("https://") in (f"{named}:{port}", f"[::1]:{port}")


def test_a_plane_of_an_earlier_version_has_no_tls(plane: Supervised) -> None:
    assert locate.in_data_dir(plane.home.data_dir).tls_url is None


def test_the_ca_is_in_the_data_dir(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"ca\.pem is missing"):
        locate.authority(tmp_path)
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls" / "ca.pem").write_text("PEM")
    assert locate.authority(tmp_path) == "PEM"


def test_no_plane_says_how_to_start_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unavailable, match=r"no plane runs in \.mizzen") as caught:
        locate.find(environ={})
    golden.check(caught.value.hint)
    with pytest.raises(Unavailable) as caught:
        locate.find(data_dir="other", environ={})
    golden.check(caught.value.hint)
    assert list(tmp_path.iterdir()) == [], "looking leaves no trace"


def test_the_word_of_a_dead_supervisor_is_not_taken(plane: Supervised) -> None:
    plane.kill()
    with pytest.raises(Unavailable, match="no plane runs"):
        locate.in_data_dir(plane.home.data_dir)
    assert plane.home.info.exists()


def test_a_run_folder_open_to_others_is_not_believed(plane: Supervised) -> None:
    plane.home.run.chmod(0o777)
    try:
        with pytest.raises(Forbidden, match="open to others") as caught:
            locate.in_data_dir(plane.home.data_dir)
        assert caught.value.hint.startswith("remove it")
    finally:
        plane.home.run.chmod(0o700)


def test_a_supervisor_without_a_plane_is_said(tmp_path: Path) -> None:
    with supervised(tmp_path / "data") as running:
        running.start()
        with pytest.raises(Unavailable, match="is damaged") as caught:
            locate.in_data_dir(tmp_path / "data")
        assert "mizzen down" in caught.value.hint


def test_a_revived_supervisor_is_waited_for(tmp_path: Path) -> None:
    with supervised(tmp_path / "data") as running:
        running.start(running.keeper("gateway-0", delay=0.3), listeners=LISTENERS)
        until(lambda: running.log("gateway-0"))
        place, first = locate.in_data_dir(tmp_path / "data"), running.note()
        running.kill()
        assert locate.running(tmp_path / "data")
        assert locate.in_data_dir(tmp_path / "data") == place
        assert running.note() != first


def test_nobody_waits_for_those_who_cannot_revive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "REVIVAL", float("inf"))
    with supervised(tmp_path / "data") as running:
        running.start(running.spec("runtime"), listeners=LISTENERS)
        running.running("runtime")
        running.kill()
        assert not locate.running(tmp_path / "data")


def test_addresses_that_are_none_are_refused() -> None:
    with pytest.raises(BadRequest, match="not a valid address"):
        locate.find("127.0.0.1:8470", environ={})


def test_a_token_of_somebody_else(plane: Supervised) -> None:
    token = plane.home.data_dir / "admin-token"
    if os.geteuid() == 0:
        token.unlink()
        assert locate.in_data_dir(plane.home.data_dir).token is None
        return
    token.chmod(0)
    with pytest.raises(Forbidden, match="not readable"):
        locate.in_data_dir(plane.home.data_dir)


def test_home_is_only_computed(tmp_path: Path) -> None:
    assert not locate.running(tmp_path / "none")
    assert not Home.of(tmp_path / "none").data_dir.exists()
