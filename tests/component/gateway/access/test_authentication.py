"""A gateway with access.json in force: who gets what, and for how long."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from mizzen.access.access_file import Issuer
from mizzen.access.policy import ANONYMOUS, VERBS, Actor, Target
from mizzen.graph.table_types import Route
from tests.support.access.reference import may
from tests.support.gateway.guarded import (
    BINDINGS,
    PASSES,
    START,
    Clock,
    bearer,
    bound,
    permit,
    predict,
    see,
    table,
    token,
)
from tests.support.gateway.harness import Gateway, Response, Runtime, body_of, infer_request, publish, request, until

KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())


def test_each_gets_what_their_bindings_give(guarded: Gateway, folder: Path) -> None:
    for who, place, code in (
        ("root", "/iris", 200), ("root", "/rose", 200), ("root", "/nobody", 404),
        ("ann", "/iris", 200), ("ann", "/iris/versions/1", 200), ("ann", "/iris/versions/prod", 200),
        ("ann", "/iris-1", 200), ("ann", "/iris-9", 503), ("ann", "/lily", 200), ("ann", "/iris/versions/7", 404),
        ("ann", "/rose", 403), ("ann", "/nobody", 403),
        ("bob", "/iris/versions/prod", 200), ("bob", "/lily/versions/prod", 200),
        ("bob", "/iris", 403), ("bob", "/iris/versions/1", 403), ("bob", "/iris-1", 403), ("bob", "/rose", 403),
        ("eve", "/rose", 403), ("eve", "/iris", 403),
        ("", "/iris", 401), ("", "/nobody", 401), ("zoe", "/iris", 401),
    ):  # fmt: skip
        for spelled in (place, place.replace("i", "%69", 1)):  # as it is, and past the hot path
            answer = predict(guarded, who, spelled)
            assert answer.status == code, (who, spelled, answer)
            assert code == 200 or answer.error
            assert (answer.headers.get("www-authenticate") == 'Bearer realm="mizzen"') == (code == 401)
            assert answer.headers["mizzen-request-id"]
    assert predict(guarded, "ann", "/iris", "/ns/default").status == 200
    assert predict(guarded, "ann", "/iris", "/ns/other").status == 403
    assert "mizzen permit ann predict rose" in predict(guarded, "ann", "/rose").error


def test_v1_is_guarded_by_the_same_bindings(guarded: Gateway) -> None:
    body = b'{"instances": [[1, 2]]}'
    for who, place, code in (
        ("root", "rose", 200), ("ann", "iris", 200), ("ann", "iris/versions/1", 200), ("ann", "iris/labels/prod", 200),
        ("ann", "rose", 403), ("ann", "iris/labels/nobody", 404), ("ann", "nobody", 403),
        ("bob", "iris/labels/prod", 200), ("bob", "iris/versions/prod", 200), ("bob", "iris", 403),
        ("bob", "iris/versions/1", 403), ("bob", "iris/labels/other", 403), ("", "iris", 401), ("zoe", "iris", 401),
    ):  # fmt: skip
        for spelled in (place, place.replace("i", "%69", 1)):
            asked = f"/v1/models/{spelled}:predict"
            answer = guarded.ask("POST", asked, body, **bearer(who))
            assert answer.status == code, (who, spelled, answer)
            assert code != 200 or answer.json == {"predictions": [3]}


def test_statistics_and_the_index_show_what_one_may_see(guarded: Gateway) -> None:
    for who, seen in (("root", {"iris", "rose"}), ("ann", {"iris"}), ("eve", {"rose"})):
        stats = guarded.ask("GET", "/v2/models/stats", **bearer(who)).json["model_stats"]
        index = guarded.ask("POST", "/v2/repository/index", **bearer(who)).json
        names = guarded.ask("GET", "/v1/models", **bearer(who)).json["models"]
        for found in ({one["name"] for one in stats}, {one["name"] for one in index}, set(names)):
            assert found & {"iris", "rose"} == seen
    for method, path in (
        ("GET", "/v2/models/stats"), ("POST", "/v2/repository/index"), ("GET", "/v1/models"),
        ("GET", "/v2/models/iris/config"), ("GET", "/v2/models/iris/stats"), ("GET", "/v1/models/iris"),
        ("GET", "/v1/models/iris/metadata"),
    ):  # fmt: skip
        assert guarded.ask(method, path).status == 401
        assert "iris" not in path or guarded.ask(method, path, **bearer("eve")).status == 403


def test_a_refusal_tells_neither_what_is_there_nor_what_it_belongs_to(guarded: Gateway) -> None:
    for place in ("{}", "{}/versions/1", "{}/versions/prod", "{}/versions/7"):
        there, missing = (predict(guarded, "eve", "/" + place.format(name)) for name in ("iris-1", "nobody"))
        assert (there.status, missing.status) == (403, 403)
        assert there.error == missing.error.replace("nobody", "iris-1")
        assert "predict iris-1" in there.error


def test_what_a_name_is_is_told_to_those_who_may_read_or_call_it(guarded: Gateway) -> None:
    for who, place, code in (
        ("ann", "/iris", 200), ("ann", "/iris-1/ready", 200), ("ann", "/rose", 403), ("ann", "/rose/ready", 403),
        ("bob", "/iris", 403), ("bob", "/iris/versions/prod", 200), ("bob", "/iris/versions/prod/ready", 200),
        ("eve", "/rose", 200), ("eve", "/rose/ready", 200), ("eve", "/iris", 403),
        ("", "/rose", 401), ("zoe", "/rose/ready", 401), ("root", "/nobody", 404), ("eve", "/nobody", 403),
    ):  # fmt: skip
        assert see(guarded, who, place).status == code, (who, place)
    names = {who: [one["name"] for one in see(guarded, who).json["models"]] for who in ("root", "ann", "eve")}
    assert names == {
        "root": ["iris", "iris-1", "iris-9", "lily", "rose"],
        "ann": ["iris", "iris-1", "iris-9", "lily"],
        "eve": ["rose"],
    }
    assert [see(guarded, who).status for who in ("bob", "", "zoe")] == [403, 401, 401]
    assert see(guarded, "ann", namespace="/ns/other").status == 403


def test_health_is_for_everybody_and_metrics_show_what_one_may_see(guarded: Gateway) -> None:
    for path in ("/", "/healthz", "/v2/health/live", "/v2/health/ready", "/ns/x/v2/health/ready"):
        for who in ("", "zoe", "ann"):
            assert guarded.ask("GET", path, **bearer(who)).status == 200
    for path in ("/v2", "/metrics", "/openapi.json"):
        codes = [guarded.ask("GET", path, **bearer(who)).status for who in ("", "zoe", "ann", "root")]
        assert codes == [401, 401, 200, 200]
    assert predict(guarded, "root", "/rose").status == predict(guarded, "root", "/iris").status == 200
    seen = {who: guarded.ask("GET", "/metrics", **bearer(who)).body.decode() for who in ("root", "ann", "eve")}
    assert 'model="rose"' in seen["root"]
    assert 'model="iris"' in seen["root"]
    assert 'model="rose"' not in seen["ann"]
    assert 'model="iris"' in seen["ann"]
    assert 'model="iris"' not in seen["eve"]
    assert all("mizzen_refused_total" in text for text in seen.values())


def test_strangers_are_served_where_the_settings_and_the_file_say_so(
    folder: Path, runtime: Runtime, start_gateway: Callable[..., Gateway]
) -> None:
    publish(folder / "table.json", table(runtime.address))
    gateway = start_gateway()
    gateway.wait_ready("iris")
    assert predict(gateway, "").status == 200, "before there is a file"
    assert predict(gateway, "ann").status == 503
    assert "cannot be checked yet" in predict(gateway, "ann").error
    permit(folder, anonymous=True)
    until(lambda: predict(gateway, "ann").status == 200)
    assert predict(gateway, "").status == 200
    assert predict(gateway, "bob").status == 200, "a user without bindings has the rights of a stranger"
    assert predict(gateway, "zoe").status == 401, "a token that is not good is never overlooked"
    assert see(gateway, "eve", "/iris").status == 200
    permit(folder, anonymous=False)
    until(lambda: predict(gateway, "").status == 401)
    os.unlink(folder / "access.json")
    (folder / "access.json").write_bytes(b"{")
    for _ in range(20):
        assert (predict(gateway, "").status, predict(gateway, "ann").status) == (401, 200), "the last good one serves"


def test_who_is_reached_from_elsewhere_serves_no_stranger(
    folder: Path, runtime: Runtime, start_gateway: Callable[..., Gateway]
) -> None:
    publish(folder / "table.json", table(runtime.address))
    permit(folder, anonymous=True)
    gateway = start_gateway(anonymous=True, loopback=False)
    until(lambda: see(gateway, "root", "/iris/ready").status == 200)
    assert predict(gateway, "").status == 401

    def ask(**headers: str) -> int:
        return gateway.ask("POST", "/v2/models/iris/infer", body_of([1.0]), **headers, **bearer("ann")).status

    assert ask(Host="models.example:8471") == 200
    assert ask(Host="models.example:8471", Origin="http://models.example:8471") == 200
    assert ask(Host="models.example", Origin="https://Models.example") == 200
    assert ask(Host="models.example", Origin="http://evil.example") == 403
    assert ask(Host="models.example", Origin="null") == 403


def test_odd_credentials_are_refused(guarded: Gateway) -> None:
    question = request("POST", "/v2/models/iris/infer", body_of([1.0]), **bearer("ann"))
    twice = question.replace(b"Authorization:", b"Authorization: Bearer ann-token\r\nauthorization:", 1)
    for data in (
        twice,
        question.replace(b"Bearer ", b"Basic "),
        question.replace(b"Bearer ann-token", b""),
        question.replace(b"ann-token", b"ann-token x"),
        question.replace(b"ann-token", b"ann-t\xc3\xa9ken"),
        question.replace(b"ann-token", b"eyJhbGciOiJFUzI1NiJ9.e30.AAAA"),
    ):
        with guarded.client() as client:
            client.send(data)
            answer = client.answer()
            assert answer.status == 401, data
            assert "ann-token" not in answer.error
            client.send(question)
            assert client.answer().status == 200, "and the connection goes on"


def issuer(*keys: Any) -> Issuer:
    jwks = tuple({**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid} for kid, key in keys)
    return Issuer(
        issuer="https://id.example", audience="mizzen", user_claim="sub", groups_claim="groups", admin_group="wheel",
        keys=jwks,
    )  # fmt: skip


def signed(key: Any = KEY, kid: str = "k1", **claims: Any) -> str:
    said = {"iss": "https://id.example", "aud": "mizzen", "sub": "ann", "exp": START + 100, **claims}
    return jwt.encode(said, key, algorithm="ES256", headers={"kid": kid})


def test_jwts_are_checked_with_the_keys_of_the_file(guarded: Gateway, folder: Path, clock: Clock) -> None:
    def ask(text: str, place: str = "/iris") -> Response:
        return guarded.ask("POST", f"/v2/models{place}/infer", body_of([1.0]), Authorization=f"Bearer {text}")

    assert "accepts no JWTs" in ask(signed()).error
    bindings = (*BINDINGS, bound("group:lab", "predict", "rose"))
    permit(folder, PASSES, bindings, issuer=issuer())
    until(lambda: ask(signed(groups=["lab"])).status == 503)
    permit(folder, PASSES, bindings, issuer=issuer(("k1", KEY)))
    until(lambda: ask(signed(groups=["lab"]), "/rose").status == 200)
    assert ask(signed(), "/rose").status == 403
    assert ask(signed(groups=["lab"]), "/iris").status == 403, "oidc:ann is not ann"
    assert ask(signed(groups=["wheel"]), "/iris").status == 200
    for bad in (
        signed(OTHER_KEY), signed(kid="k2"), signed(aud="other"), signed(iss="https://evil.example"),
        signed(exp=START), signed(groups=["wheel"])[:-4] + "AAAA", jwt.encode({"sub": "ann"}, "", algorithm="none"),
    ):  # fmt: skip
        answer = ask(bad)
        assert (answer.status, bad in answer.error) == (401, False), answer
    question = infer_request([1.0], "rose", Authorization=f"Bearer {signed(groups=['lab'])}")
    with guarded.client() as client:
        for clock.time, code in ((START + 99, 200), (START + 99.9, 200), (START + 100, 401)):
            client.send(question)
            assert client.answer().status == code
    clock.time = START
    permit(folder, PASSES, bindings, issuer=issuer(("k2", OTHER_KEY)))
    until(lambda: ask(signed(groups=["lab"]), "/rose").status == 401)
    assert ask(signed(OTHER_KEY, "k2", groups=["lab"]), "/rose").status == 200


def test_over_http_it_is_the_slow_reference_too(guarded: Gateway, folder: Path, runtime: Runtime) -> None:
    """Random people, rights and requests, over connections that go on: codes must be those of the rules."""
    rng = random.Random(11)
    routes = {(route.namespace, route.name): route for route in table(runtime.address).routes}
    for turn in range(4):
        people = [f"p{turn}{n}" for n in range(6)]
        bindings = tuple(
            bound(
                rng.choice((*people, "*") if n % 5 else people),
                rng.choice(VERBS),
                rng.choice(("", "iris", "lily", "rose", "iris-1")),
                namespace=rng.choice(("default", "default", "other")),
            )
            for n in range(rng.randrange(8))
        ) + tuple(bound(rng.choice(people), "predict", "iris", "prod") for _ in range(2))
        permit(folder, (token(f"fresh{turn}", admin=True), *map(token, people)), bindings)
        until(partial(known, guarded, f"fresh{turn}"))
        with guarded.client() as client:
            for _ in range(150):
                who, (space, name) = rng.choice((*people, "", "zoe")), rng.choice(list(routes))
                version = rng.choice((None, *routes[space, name].aliases, *routes[space, name].versions))
                reads = rng.random() < 0.3
                place = f"/ns/{space}/v2/models/{name}" + (f"/versions/{version}" if version else "")
                if reads:
                    client.send(request("GET", f"{place}/ready", **bearer(who)))
                else:
                    client.send(request("POST", f"{place}/infer", body_of([1.0]), **bearer(who)))
                target = expected_target(routes[space, name], version)
                verbs = ("read", "predict") if reads else ("predict",)
                actor = Actor(who) if who else ANONYMOUS
                good = any(may(actor, verb, target, list(bindings), anonymous=False) for verb in verbs)
                code = client.answer().status
                if who in ("", "zoe"):
                    assert code == 401
                elif not good:
                    assert code == 403, (who, place, bindings)
                else:
                    assert code == (503 if name == "iris-9" else 200), (who, place, bindings)


def known(gateway: Gateway, who: str) -> bool:
    return predict(gateway, who).status == 200


def expected_target(route: Route, version: str | None) -> Target:
    models = frozenset({route.name, route.model} - {""})
    alias = version if version is not None and version in route.aliases else ""
    return Target(route.namespace, "Model", route.name, models=models, alias=alias or "")
