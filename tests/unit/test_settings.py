from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mizzen.errors import Invalid
from mizzen.server.admin import tls_issuance
from mizzen.settings import Settings
from tools.reference import settings as reference


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("gateways = 2\nport = 1000\nlog_level = 'debug'\n")
    environ = {"MIZZEN_DATA_DIR": str(tmp_path), "MIZZEN_PORT": "2000", "MIZZEN_LOG_LEVEL": "error"}
    settings = Settings.load({"log_level": "warning", "host": None}, environ)
    assert (settings.gateways, settings.port, settings.log_level) == (2, 2000, "warning")
    assert settings.host == "127.0.0.1"


def test_every_fault_is_named_with_its_source(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("gatewys = 2\n")
    with pytest.raises(Invalid) as caught:
        Settings.load({"data_dir": str(tmp_path), "host": "0.0.0.0", "gateways": 0}, {"MIZZEN_PORT": "many"})
    text = str(caught.value)
    for part in ("'gatewys'; did you mean 'gateways'?", "MIZZEN_PORT", "loopback", "gateways"):
        assert part in text


@pytest.mark.parametrize(
    ("ports", "says"),
    [
        ({"port": 9, "inference_port": 9}, "inference_port: is the same as port, 9"),
        ({"port": 8473}, "tls_port: is the same as port, 8473"),
        ({"inference_port": 9, "tls_port": 9}, "tls_port: is the same as inference_port, 9"),
        ({"tls_port": 65536}, "tls_port: 65536 is not a port"),
    ],
)
def test_each_api_needs_a_port_of_its_own(tmp_path: Path, ports: dict[str, int], says: str) -> None:
    with pytest.raises(Invalid, match=says):
        Settings.load({"data_dir": str(tmp_path), **ports}, {})


def test_any_number_of_ports_may_be_picked(tmp_path: Path) -> None:
    settings = Settings.load({"data_dir": str(tmp_path), "port": 0, "inference_port": 0, "tls_port": 0}, {})
    assert (settings.port, settings.inference_port, settings.tls_port) == (0, 0, 0)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("port = \n")
    with pytest.raises(Invalid, match=r"settings\.toml is not valid TOML"):
        Settings.load({"data_dir": str(tmp_path)}, {})


@pytest.mark.parametrize("given", [("tls_certificate",), ("tls_key",), ("tls_certificate", "tls_key")])
def test_given_certificates_are_looked_at_before_anything_starts(tmp_path: Path, given: tuple[str, ...]) -> None:
    (tmp_path / "none.pem").write_text("nothing")
    files = dict.fromkeys(given, "none.pem")
    with pytest.raises(Invalid, match=r"must be set together|cannot be used"):
        Settings.load({"data_dir": str(tmp_path), "inference_tls": True, **files}, {})
    with pytest.raises(Invalid, match=r"must be set together|without inference_tls"):
        Settings.load({"data_dir": str(tmp_path), **files}, {})


def test_a_certificate_out_of_date_is_told_before_anything_starts(tmp_path: Path) -> None:
    """Else nobody would say why the plane does not become ready: who asks whether it is checks the certificate."""
    long_ago, root = datetime.now(UTC) - timedelta(days=800), tls_issuance.new_key()
    pair = tls_issuance.issue_server(
        tls_issuance.general_names(("a",)),
        tls_issuance.KeyPair(tls_issuance.issue_authority(root, long_ago), root),
        long_ago,
    )
    (tmp_path / "c.pem").write_bytes(tls_issuance.certificate_text(pair.certificate))
    (tmp_path / "k.pem").write_bytes(tls_issuance.key_text(pair.key))
    with pytest.raises(Invalid, match="cannot be used: certificate has expired"):
        Settings.load(
            {"data_dir": str(tmp_path), "inference_tls": True, "tls_certificate": "c.pem", "tls_key": "k.pem"}, {}
        )


def test_a_list_is_read_from_file_and_environment(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('tls_names = ["a.example", "10.0.0.7"]')
    assert Settings.load({"data_dir": str(tmp_path)}, {}).tls_names == ("a.example", "10.0.0.7")
    assert Settings.load({"data_dir": str(tmp_path)}, {"MIZZEN_TLS_NAMES": "b.example, "}).tls_names == ("b.example",)
    (tmp_path / "settings.toml").write_text("tls_names = 7")
    with pytest.raises(Invalid, match="a list of texts"):
        Settings.load({"data_dir": str(tmp_path)}, {})


def test_survives_json() -> None:
    settings = Settings(gateways=3, hold_seconds=0.5, tls_names=("a", "b"))
    assert Settings.from_json(settings.to_json()) == settings


def test_every_setting_explains_itself() -> None:
    assert {setting.name for setting in fields(Settings)} == reference.docstrings().keys()


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("False", False), ("no", False)])
def test_a_switch_is_read_as_people_write_it(tmp_path: Path, text: str, value: bool) -> None:
    settings = Settings.load({"data_dir": str(tmp_path)}, {"MIZZEN_ANONYMOUS": text})
    assert settings.anonymous is value


@pytest.mark.parametrize(("file", "part"), [("anonymous = 'maybe'", "true or false"), ("port = true", "whole number")])
def test_a_value_of_another_type_is_a_fault(tmp_path: Path, file: str, part: str) -> None:
    (tmp_path / "settings.toml").write_text(file)
    with pytest.raises(Invalid, match=part):
        Settings.load({"data_dir": str(tmp_path)}, {})


def test_another_host_than_loopback_must_be_meant(tmp_path: Path) -> None:
    there = {"data_dir": str(tmp_path), "host": "0.0.0.0"}
    with pytest.raises(Invalid, match=r"inference_tls = true \(--inference-tls\), or set insecure = true"):
        Settings.load(there, {})
    settings = Settings.load(there | {"insecure": True}, {})
    assert not settings.loopback
    assert settings.plain_host == "0.0.0.0", "as it is meant"
    settings = Settings.load(there | {"inference_tls": True}, {})
    assert not settings.loopback
    assert settings.plain_host == "127.0.0.1", "nothing that is not encrypted can be reached from elsewhere"
    assert Settings.load({"data_dir": str(tmp_path)}, {}).loopback


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"oidc_issuer": "https://id.example"}, "oidc_audience: required"),
        ({"oidc_issuer": "http://id.example", "oidc_audience": "mizzen"}, "https address"),
        ({"oidc_issuer": "id.example", "oidc_audience": "mizzen"}, "https address"),
        ({"oidc_keys": "http://id.example/keys"}, "https address"),
    ],
)
def test_an_issuer_must_be_one_to_rely_on(tmp_path: Path, given: dict[str, str], part: str) -> None:
    with pytest.raises(Invalid, match=part):
        Settings.load({"data_dir": str(tmp_path), **given}, {})


def test_issuers_that_are_taken(tmp_path: Path) -> None:
    for issuer, keys in (("https://id.example", "keys.json"), ("http://127.0.0.1:9", ""), ("https://i.d", "https://k")):
        given = {"oidc_issuer": issuer, "oidc_audience": "mizzen", "oidc_keys": keys}
        assert Settings.load({"data_dir": str(tmp_path), **given}, {}).oidc_issuer == issuer


@pytest.mark.parametrize("logged", ["off", "errors", "all"])
def test_what_the_access_log_holds(tmp_path: Path, logged: str) -> None:
    assert Settings.load({"data_dir": str(tmp_path)}, {"MIZZEN_ACCESS_LOG": logged}).access_log == logged


def test_an_access_log_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as refused:
        Settings.load({"data_dir": str(tmp_path)}, {"MIZZEN_ACCESS_LOG": "everything"})
    assert "'everything' is not valid; expected off, errors or all" in str(refused.value)


def test_what_another_release_wrote() -> None:
    text = Settings(gateways=3).to_json().replace('"gateways"', '"of_the_future": 1, "gateways"')
    assert Settings.from_json(text) == Settings(gateways=3)
