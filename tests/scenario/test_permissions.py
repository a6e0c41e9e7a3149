"""Rights on a real plane that serves no strangers: tokens, bindings, aliases, JWTs, revocation, and their audit."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.support import planes

ISSUER = "https://id.example"
QUESTION = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [0]}]}
KEY = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    """`answer` with versions 1 (alias prod) and 2 (current); for people with rights only, whom each test brings."""
    folder = tmp_path_factory.mktemp("rights")
    data_dir = folder / "data"
    data_dir.mkdir()
    keys = {"keys": [{**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "k1"}]}
    (data_dir / "keys.json").write_text(json.dumps(keys))
    (data_dir / "settings.toml").write_text(
        "anonymous = false\ngateways = 2\n"
        f'oidc_issuer = "{ISSUER}"\noidc_audience = "mizzen"\noidc_keys = "keys.json"\n'
    )
    (folder / "answer.py").write_text("def one(inputs):\n    return [1]\n\n\ndef two(inputs):\n    return [2]\n")
    with planes.running_plane(data_dir) as running:
        for function in ("one", "two"):
            running.cli("deploy", f"answer:{function}", "--name", "answer", cwd=folder)
        running.cli("alias", "set", "answer", "prod", "1")
        place = f"{running.inference_url}/v2/models/answer/versions/prod/ready"
        planes.wait_until(lambda: _get(place, running.token()) == 200, "the alias answers")
        yield running


def test_rights_are_given_used_taken_and_audited(plane: planes.TestPlane) -> None:
    ann, bob = _user(plane, "ann"), _user(plane, "bob")
    here = f"{plane.inference_url}/v2/models"
    assert _ask(plane, None) == _ask(plane, "wrong") == 401
    assert _ask(plane, ann) == _ask(plane, bob) == 403
    refused = plane.cli("predict", "answer", "--data", "[[1]]", check=False, MIZZEN_TOKEN=ann)
    assert refused.returncode == 1
    assert "mizzen permit ann" in refused.stderr

    plane.cli("permit", "ann", "predict", "answer")
    plane.cli("permit", "bob", "predict", "answer@prod")
    planes.wait_until(lambda: _ask(plane, ann) == 200, "ann may predict")
    planes.wait_until(lambda: _ask(plane, bob, "/answer/versions/prod") == 200, "bob may ask the alias")
    for place in ("/answer", "/answer/versions/1", "/answer-1", "/answer-2"):
        assert (_ask(plane, ann, place), _ask(plane, bob, place)) == (200, 403), place
    assert json.loads(plane.cli("predict", "answer", "--data", "[0]", "-o", "json", MIZZEN_TOKEN=ann).stdout)["outputs"]
    assert _get(here, ann) == 200
    assert _get(here, None) == 401
    assert _get(f"{plane.inference_url}/v2/health/ready", None) == 200
    assert _get(f"{plane.control_url}/model/answer", ann) == 403, "predict includes nothing else"

    plane.cli("permit", "bob", "predict", "answer@prod", "--revoke")
    planes.wait_until(lambda: _ask(plane, bob, "/answer/versions/prod") == 403, "bob has lost it")
    [token] = json.loads(plane.cli("token", "list", "ann", "-o", "json").stdout)["items"]
    plane.cli("token", "revoke", "ann", token["id"])
    planes.wait_until(lambda: _ask(plane, ann) == 401, "the token is dead")
    assert [_ask(plane, ann) for _ in range(20)] == [401] * 20, "at every gateway"

    def seen() -> set[tuple[str, str, str, int]]:
        entries = _audit(plane)
        return {(e["actor"], e["verb"], e["name"], e["code"]) for e in entries if e["source"].startswith("gateway-")}

    expected = {
        ("ann", "predict", "answer", 403), ("bob", "predict", "answer", 403), ("bob", "predict", "answer-1", 403),
        ("anonymous", "predict", "answer", 401), ("anonymous", "authenticate", "", 401), ("ann", "read", "answer", 403),
    }  # fmt: skip
    planes.wait_until(lambda: seen() >= expected, "the gateways' refusals are in the audit")
    text = json.dumps(_audit(plane)) + "".join(log.read_text() for log in (plane.data_dir / "logs").glob("*.log"))
    for secret in (ann, bob, plane.token()):
        assert secret not in text
        assert secret.encode() not in (plane.data_dir / "access.json").read_bytes()
    assert (plane.data_dir / "access.json").stat().st_mode & 0o077 == 0


def test_a_jwt_of_the_trusted_issuer_opens_what_its_groups_may(plane: planes.TestPlane) -> None:
    good, other = _signed(groups=["lab"]), _signed(groups=["ops"])
    planes.wait_until(lambda: _ask(plane, good) == 403, "the keys are known")
    plane.cli("permit", "group:lab", "predict", "answer")
    planes.wait_until(lambda: _ask(plane, good) == 200, "the group may predict")
    assert _ask(plane, other) == 403
    assert _ask(plane, _signed(groups=["lab"], exp=time.time() - 1)) == 401
    assert _ask(plane, _signed(ec.generate_private_key(ec.SECP256R1()), groups=["lab"])) == 401
    assert _ask(plane, _signed(groups=["lab"], aud="another")) == 401


def test_rights_hold_while_the_plane_is_away_and_when_it_comes_back(plane: planes.TestPlane) -> None:
    cleo, dan = _user(plane, "cleo"), _user(plane, "dan")
    plane.cli("permit", "cleo", "predict", "answer")
    planes.wait_until(lambda: _ask(plane, cleo) == 200, "cleo may predict")
    killed = plane.pid("plane")
    os.kill(killed, signal.SIGKILL)
    for _ in range(20):
        assert (_ask(plane, cleo), _ask(plane, dan), _ask(plane, None)) == (200, 403, 401)
    gateway = plane.pid("gateway-0")
    os.kill(gateway, signal.SIGKILL)
    planes.wait_until(lambda: gateway not in plane.pids("gateway-0") and plane.pids("gateway-0"), "it is started again")
    for _ in range(20):
        assert (_ask(plane, cleo), _ask(plane, dan), _ask(plane, None)) == (200, 403, 401)
    planes.wait_until(lambda: _get(f"{plane.control_url}/readyz", None) == 200, "the plane is back")
    planes.wait_until(lambda: any(e["actor"] == "dan" for e in _audit(plane)), "what was refused meanwhile is audited")
    refused = sum(e["count"] for e in _audit(plane) if e["actor"] == "dan")
    assert refused <= 40, "and nothing twice"
    plane.cli("user", "delete", "cleo")
    planes.wait_until(lambda: _ask(plane, cleo) == 401, "cleo is gone")


def test_a_limit_is_counted_whoever_is_killed(plane: planes.TestPlane) -> None:
    token = _user(plane, "lim")
    plane.cli("permit", "lim", "predict", "answer")
    said = plane.cli("limit", "lim", "--per-second", "1000", "--per-day", "6").stdout
    assert "1000 times a second (1000 at once), 6 times a day" in said
    planes.wait_until(lambda: "ratelimit-limit" in _asked(plane, token).headers, "gateways know")
    counted = [200]
    for number in range(9):
        if number == 2:
            for key in ("gateway-0", "plane"):
                os.kill(plane.pid(key), signal.SIGKILL)
        answer = _asked(plane, token)
        if "ratelimit-limit" in answer.headers:  # what the other gateway answers that has not looked yet is not
            counted.append(answer.status_code)
    assert set(counted) == {200, 429}
    assert 5 <= counted.count(200) <= 6, "the killed gateway may have had one"
    planes.wait_until(lambda: _get(f"{plane.control_url}/readyz", None) == 200, "the plane is back")
    assert "6 this day" in plane.cli("limit", "lim").stdout
    plane.cli("limit", "lim", "--per-day", "9", "--per-second", "100")
    planes.wait_until(lambda: _ask(plane, token) == 200, "more is allowed")
    plane.cli("limit", "lim", "--remove")
    assert "no limits" in plane.cli("limit").stderr
    plane.cli("user", "delete", "lim")


def test_where_others_can_reach_it_nobody_is_served_without_a_token(tmp_path: Path) -> None:
    (tmp_path / "answer.py").write_text("def one(inputs):\n    return [1]\n")
    # Also an address of this machine alone; but not one that is known to be.
    with planes.running_plane(tmp_path / "data", "--host", "127.0.0.2", "--insecure") as plane:
        assert "//127.0.0.2:" in plane.inference_url
        plane.cli("deploy", "answer:one", "--name", "answer", cwd=tmp_path)
        assert (_ask(plane, None), _ask(plane, "wrong"), _ask(plane, plane.token())) == (401, 401, 200)
        assert _get(f"{plane.inference_url}/v2/health/ready", None) == 200
        assert _get(f"{plane.inference_url}/metrics", None) == 401
        told = httpx2.get(f"{plane.control_url}/", headers=_headers(plane.token()), verify=False).json()
        assert told["inference"] == plane.inference_url


def _user(plane: planes.TestPlane, name: str) -> str:
    """Their token."""
    plane.cli("user", "add", name)
    return plane.cli("token", "create", name).stdout.strip()


def _ask(plane: planes.TestPlane, token: str | None, place: str = "/answer") -> int:
    return _asked(plane, token, place).status_code


def _asked(plane: planes.TestPlane, token: str | None, place: str = "/answer") -> httpx2.Response:
    return httpx2.post(
        f"{plane.inference_url}/v2/models{place}/infer",
        json=QUESTION,
        headers=_headers(token),
        timeout=60,
        verify=False,
    )


def _get(url: str, token: str | None) -> int:
    try:
        return httpx2.get(url, headers=_headers(token), timeout=60, verify=False).status_code
    except httpx2.TransportError:
        return 0


def _audit(plane: planes.TestPlane) -> list[dict[str, Any]]:
    found = httpx2.get(
        f"{plane.control_url}/audit?allowed=false&limit=1000", headers=_headers(plane.token()), verify=False
    )
    items: list[dict[str, Any]] = found.json()["items"]
    return items


def _headers(token: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"} if token else {}


def _signed(key: ec.EllipticCurvePrivateKey = KEY, **claims: Any) -> str:
    said = {"iss": ISSUER, "aud": "mizzen", "sub": "ann", "exp": time.time() + 600, **claims}
    return jwt.encode(said, key, algorithm="ES256", headers={"kid": "k1"})
