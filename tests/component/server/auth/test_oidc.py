"""JWTs: taken when the issuer's key signed them for us, else refused with the reason; an outage lets nobody in."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from mizzen.access.jwt import TrustedIssuer
from mizzen.server.auth.jwks import IssuerKeys
from mizzen.server.auth.oidc import OidcAuthenticator
from tests.support.server.harness import HERE, TOKEN, Harness, serving

RSA = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
P256 = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def public(key: Any, kid: str, **more: str) -> dict[str, Any]:
    if isinstance(key, rsa.RSAPrivateKey):
        text = RSAAlgorithm.to_jwk(key.public_key())
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        text = OKPAlgorithm.to_jwk(key.public_key())
    else:
        text = ECAlgorithm.to_jwk(key.public_key())
    return {**json.loads(text), "kid": kid, **more}


class Issuer:
    """A server on loopback with a discovery document and keys, which counts how often it is asked."""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = [public(RSA, "r1"), public(P256, "e1", alg="ES256"), public(ED, "d1")]
        self.asked: list[str] = []
        self.status = 200
        self.body: bytes | None = None
        self.name: str | None = None
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                body = issuer.answer(self.path)
                self.send_response(issuer.status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path: str) -> bytes:
        if self.body is not None:
            return self.body
        if path == "/.well-known/openid-configuration":
            return json.dumps({"issuer": self.name or self.url, "jwks_uri": f"{self.url}/keys"}).encode()
        return json.dumps({"keys": self.keys}).encode()


class Clock:
    """For the age of keys; the times in tokens are real."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    thread = threading.Thread(target=issuer.server.serve_forever, args=(0.01,))
    thread.start()
    yield issuer
    issuer.server.shutdown()
    thread.join()
    issuer.server.server_close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@contextmanager
def trusting(folder: Path, issuer: str, clock: Callable[[], float], keys: str = "") -> Iterator[Harness]:
    trust = TrustedIssuer(issuer, "mizzen", admin_group="wheel")
    oidc = OidcAuthenticator(trust, IssuerKeys(issuer, keys, clock), lambda: datetime.now(UTC))
    with serving(folder, anonymous=False, oidc=oidc) as plane:
        yield plane


@pytest.fixture
def plane(tmp_path: Path, issuer: Issuer, clock: Clock) -> Iterator[Harness]:
    with trusting(tmp_path, issuer.url, clock) as plane:
        yield plane


def token(
    issuer: Issuer, key: Any = RSA, kid: str | None = "r1", algorithm: str = "RS256", headers: Any = (), **claims: Any
) -> str:
    """Good, but for what is said; None leaves a claim out."""
    now = datetime.now(UTC)
    said = {"iss": issuer.url, "aud": "mizzen", "sub": "ann", "exp": now + timedelta(hours=1), **claims}
    head = {**dict(headers), **({"kid": kid} if kid else {})}
    kept = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(kept, key, algorithm=algorithm, headers=head)


def whoami(plane: Harness, text: str) -> httpx2.Response:
    return plane.client(text).get("/whoami")


def test_a_good_token_names_who_asks(plane: Harness, issuer: Issuer) -> None:
    who = whoami(plane, token(issuer, groups=["lab", 7, "ops"])).json()
    assert who == {"name": "oidc:ann", "groups": ["lab", "ops"], "admin": False, "bindings": [], "open": False}
    assert whoami(plane, token(issuer, aud=["other", "mizzen"], groups="lab")).json()["groups"] == ["lab"]
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize(
    ("key", "kid", "algorithm"),
    [(RSA, "r1", "RS512"), (RSA, "r1", "PS256"), (P256, "e1", "ES256"), (ED, "d1", "EdDSA")],
    ids=["RS512", "PS256", "ES256", "EdDSA"],
)
def test_public_key_algorithms_are_taken(plane: Harness, issuer: Issuer, key: Any, kid: str, algorithm: str) -> None:
    assert whoami(plane, token(issuer, key, kid, algorithm)).status_code == 200


def test_rights_come_from_bindings_and_groups(plane: Harness, issuer: Issuer) -> None:
    plane.run(plane.store.identities.principals())
    path = f"{HERE}/models"
    assert plane.client(token(issuer, groups=["lab"])).get(path).status_code == 403
    plane.permit("local", "read", subjects=["ann"])  # a user of this plane, not of the issuer
    assert plane.client(token(issuer, groups=["lab"])).get(path).status_code == 403
    plane.permit("team", "read", subjects=["group:lab"])
    assert plane.client(token(issuer, groups=["lab"])).get(path).status_code == 200
    assert plane.client(token(issuer)).get(path).status_code == 403
    assert whoami(plane, token(issuer, groups=["wheel"])).json()["admin"] is True
    assert whoami(plane, token(issuer, groups=["wheels"])).json()["admin"] is False


def _unsigned(text: str) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"none","kid":"r1"}').rstrip(b"=").decode()
    return f"{head}.{text.split('.')[1]}."


def _hmac_with_public_key(issuer: Issuer) -> str:
    """The classic: sign with the public key as if it were a shared secret."""
    pem = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT","kid":"r1"}').rstrip(b"=").decode()

    body = token(issuer).split(".")[1]
    signed = hmac.new(pem, f"{head}.{body}".encode(), hashlib.sha256).digest()
    return f"{head}.{body}.{base64.urlsafe_b64encode(signed).rstrip(b'=').decode()}"


HOUR = timedelta(hours=1)
BAD: dict[str, tuple[Callable[[Issuer], str], str]] = {
    "expired": (lambda at: token(at, exp=datetime.now(UTC) - HOUR), "expired"),
    "just expired": (lambda at: token(at, exp=datetime.now(UTC) - timedelta(seconds=1)), "expired"),
    "not yet": (lambda at: token(at, nbf=datetime.now(UTC) + HOUR), "not valid yet"),
    "no end": (lambda at: token(at, exp=None), "has no claim 'exp'"),
    "odd end": (lambda at: token(at, exp=True), "is not a time"),
    "another audience": (lambda at: token(at, aud="other"), "audience is not 'mizzen'"),
    "no audience": (lambda at: token(at, aud=None), "has no claim 'aud'"),
    "another issuer": (lambda at: token(at, iss="https://evil.example"), "issuer is not http://127.0.0.1"),
    "no issuer": (lambda at: token(at, iss=None), "has no claim 'iss'"),
    "another key": (lambda at: token(at, OTHER_RSA), "signature"),
    "another kid": (lambda at: token(at, kid="nope"), "not signed with a key of"),
    "no kid": (lambda at: token(at, kid=None), "not signed with a key of"),
    "wrong algorithm for the key": (lambda at: token(at, P256, "r1", "ES256"), "cannot be verified"),
    "nobody": (lambda at: token(at, sub=None), "is not a valid user name"),
    "empty name": (lambda at: token(at, sub=""), "is not a valid user name"),
    "name with a line break": (lambda at: token(at, sub="ann\nroot"), "is not a valid user name"),
    "unsigned": (lambda at: _unsigned(token(at)), "public-key algorithm"),
    "shared secret": (_hmac_with_public_key, "public-key algorithm"),
    "cut": (lambda at: token(at)[:-10], "signature"),
    "forged claims": (
        lambda at: ".".join([token(at).split(".")[0], token(at, sub="eve").split(".")[1], token(at).split(".")[2]]),
        "signature",
    ),
    "unknown extension": (lambda at: token(at, headers={"crit": ["x"], "x": 1}), "cannot be read"),
    "no JSON": (lambda _: "eyJub.eyJub.x", "cannot be read"),
    "deep": (lambda _: "eyJ" + base64.urlsafe_b64encode(b"[" * 9000).decode()[3:] + ".e30.x", "cannot be read"),
    "too long": (lambda _: "eyJ" + "A" * 20000 + ".e30.x", "too long"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_token_is_refused_with_its_reason(plane: Harness, issuer: Issuer, case: str) -> None:
    make, said = BAD[case]
    text = make(issuer)
    answer = whoami(plane, text)
    assert answer.status_code == 401, answer.text
    assert said in answer.json()["message"]
    (entry,) = plane.audited(allowed=False)
    assert (entry.verb, entry.actor, entry.code) == ("authenticate", "anonymous", 401)
    assert said in entry.reason
    for piece in text.split("."):
        assert len(piece) < 8 or piece not in answer.text + entry.reason


def test_a_new_key_is_fetched_at_most_once_a_minute(plane: Harness, issuer: Issuer, clock: Clock) -> None:
    assert whoami(plane, token(issuer)).status_code == 200
    issuer.keys = [public(OTHER_RSA, "r2")]
    fetched = len(issuer.asked)
    clock.time = 59
    assert whoami(plane, token(issuer, OTHER_RSA, "r2")).status_code == 401
    assert len(issuer.asked) == fetched
    clock.time = 61
    assert whoami(plane, token(issuer, OTHER_RSA, "r2")).status_code == 200
    assert whoami(plane, token(issuer)).status_code == 401  # the old one was withdrawn
    for number in range(5):
        assert whoami(plane, token(issuer, kid=f"random-{number}")).status_code == 401
    assert len(issuer.asked) == fetched + 2


def test_keys_are_believed_for_an_hour(plane: Harness, issuer: Issuer, clock: Clock) -> None:
    assert whoami(plane, token(issuer)).status_code == 200
    issuer.status = 500
    clock.time = 3599
    assert whoami(plane, token(issuer)).status_code == 200
    clock.time = 3601
    assert whoami(plane, token(issuer)).status_code == 503
    issuer.status = 200
    clock.time = 3607
    assert whoami(plane, token(issuer)).status_code == 200


@pytest.mark.parametrize("trouble", ["down", "error", "no JSON", "no keys", "private", "endless", "another issuer"])
def test_without_keys_jwts_get_503_and_all_others_go_on(
    plane: Harness, issuer: Issuer, clock: Clock, trouble: str
) -> None:
    good = token(issuer)
    if trouble == "down":
        issuer.server.socket.close()
    elif trouble == "error":
        issuer.status = 500
    elif trouble == "another issuer":
        issuer.name = "https://evil.example"
    elif trouble == "private":
        issuer.keys = [json.loads(RSAAlgorithm.to_jwk(RSA)) | {"kid": "r1"}]
    else:
        issuer.body = {"no JSON": b"<html>", "no keys": b'{"keys": []}', "endless": b" " * (2 << 20)}[trouble]
    for text in (good, token(issuer, OTHER_RSA)):
        answer = whoami(plane, text)
        assert answer.status_code == 503
        assert "cannot be fetched now" in answer.json()["message"]
        assert answer.headers["retry-after"]
    assert whoami(plane, TOKEN).json()["name"] == "admin"
    assert whoami(plane, plane.user("ann")).json()["name"] == "ann"
    assert plane.client(token=None).get("/model").status_code == 401


def test_keys_from_a_file_or_an_address(tmp_path: Path, issuer: Issuer, clock: Clock) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [public(OTHER_RSA, "f1")]}))
    for number, (place, key, kid) in enumerate(((str(file), OTHER_RSA, "f1"), (f"{issuer.url}/keys", RSA, "r1"))):
        with trusting(tmp_path / str(number), issuer.url, clock, place) as plane:
            assert whoami(plane, token(issuer, key, kid)).status_code == 200
    assert issuer.asked == ["/keys"]


def test_the_only_key_needs_no_name(tmp_path: Path, issuer: Issuer, clock: Clock) -> None:
    issuer.keys = [public(RSA, "r1"), {"kty": "oct", "k": "c2VjcmV0", "kid": "s1"}, public(P256, "e1", use="enc")]
    with trusting(tmp_path, issuer.url, clock) as plane:
        assert whoami(plane, token(issuer, kid=None)).status_code == 200
        assert whoami(plane, token(issuer, P256, "e1", "ES256")).status_code == 401


def test_without_a_trusted_issuer_no_jwt_is_taken(plane: Harness, issuer: Issuer, tmp_path: Path) -> None:
    with serving(tmp_path / "other") as other:
        answer = whoami(other, token(issuer))
    assert answer.status_code == 401
    assert "accepts no JWTs" in answer.json()["message"]
