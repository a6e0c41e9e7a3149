"""The unit of systemd: what it says, that systemd reads it as it is meant, and who may write and remove it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mizzen.cli.host.systemd_unit import UnitFile
from mizzen.errors import Invalid
from tests.support.cli.command import failed, mizzen


def settings(text: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line and not line.startswith("#"))


def test_the_unit(tmp_path: Path) -> None:
    done = mizzen("service", "install", "--print", "--user", "--data-dir", "data", cwd=tmp_path, check=True)
    told = settings(done.stdout)
    assert told["ExecStart"].endswith(f"-P -m mizzen.cli.main up --data-dir {tmp_path}/data")
    assert told["ExecStop"].endswith(f"-P -m mizzen.cli.main down --data-dir {tmp_path}/data")
    assert (told["Type"], told["KillMode"], told["Restart"]) == ("notify", "mixed", "on-failure")
    assert told["WantedBy"] == "default.target"
    assert "User" not in told
    assert "PrivateTmp" not in told, "commands outside could not find the sockets"
    assert os.listdir(tmp_path) == []


def test_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    done = mizzen("service", "install", "--print", "--system", "--data-dir", "data", cwd=tmp_path, check=True)
    told = settings(done.stdout)
    assert told["User"] == (tmp_path / "data").owner()
    assert told["NoNewPrivileges"] == "yes"
    assert told["WantedBy"] == "multi-user.target"
    failed(
        mizzen("service", "install", "--system", "--print", "--run-as", "nobody-at-all", cwd=tmp_path),
        "user nobody-at-all does not exist",
    )


def test_what_no_unit_can_hold(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be used in a systemd unit"):
        UnitFile(("mizzen",), tmp_path / "two\nlines", None).text()
    with pytest.raises(Invalid, match="systemd cannot run"):
        UnitFile(('a"b',), tmp_path, None).text()


def test_install_and_uninstall(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    file = tmp_path / "config" / "systemd" / "user" / "mizzen.service"

    def service(*words: str) -> str:
        return mizzen("service", *words, cwd=tmp_path, check=True, environ=environ).stdout

    assert '"installed": false' in service("status", "--user", "-o", "json")
    service("install", "--user", "--no-start")
    assert "ExecStart=" in file.read_text()
    assert "installed      yes" in service("status", "--user")
    service("install", "--user", "--no-start", "--data-dir", "other")
    assert str(tmp_path / "other") in file.read_text()
    service("uninstall", "--user")
    assert not file.exists()
    assert "does not exist" in service("uninstall", "--user")


def test_settings_that_the_service_will_not_have_are_told_and_nothing_else_is(tmp_path: Path) -> None:
    environ = {
        "XDG_CONFIG_HOME": str(tmp_path / "config"), "MIZZEN_GATEWAYS": "2", "MIZZEN_TOKEN": "t", "MIZZEN_LAUNCHER": "m"
    }  # fmt: skip
    said = mizzen("service", "install", "--user", "--no-start", cwd=tmp_path, check=True, environ=environ).stderr
    assert "warning: the service ignores MIZZEN_GATEWAYS: " in said


def test_a_unit_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    file = tmp_path / "config" / "systemd" / "user" / "mizzen.service"
    file.parent.mkdir(parents=True)
    file.write_text("[Unit]\n")
    for words in (("install",), ("uninstall",)):
        done = mizzen("service", *words, "--user", cwd=tmp_path, environ=environ)
        failed(done, "was not written by Mizzen", "use another name")
    assert file.read_text() == "[Unit]\n"
