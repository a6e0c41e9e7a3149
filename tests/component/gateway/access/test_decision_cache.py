"""What is remembered of a request is forgotten with the right to ask it, and what is refused is written down."""

from __future__ import annotations

import random
from pathlib import Path

from mizzen.graph.table_types import Plan, Route, Table
from tests.support.gateway.guarded import (
    PASSES,
    START,
    Clock,
    bearer,
    noted,
    permit,
    predict,
    see,
    table,
    token,
)
from tests.support.gateway.harness import Gateway, Response, Runtime, body_of, infer_request, publish, request, until


def test_a_known_head_is_forgotten_with_the_rights_it_had(guarded: Gateway, folder: Path) -> None:
    question = infer_request([1.0, 2.0], "iris", **bearer("ann"))
    with guarded.client() as client:

        def ask() -> int:
            client.send(question)
            return client.answer().status

        assert [ask() for _ in range(5)] == [200] * 5
        permit(folder, PASSES, ())
        until(lambda: ask() == 403)
        permit(folder)
        until(lambda: ask() == 200)
        assert [ask() for _ in range(5)] == [200] * 5
        permit(folder, PASSES[:1])
        until(lambda: ask() == 401)
        assert [ask() for _ in range(5)] == [401] * 5


def test_a_known_head_is_forgotten_when_its_token_ends(guarded: Gateway, folder: Path, clock: Clock) -> None:
    permit(folder, (*PASSES[2:], token("ann", expires=START + 100)))
    until(lambda: predict(guarded, "root").status == 401)
    question = infer_request([1.0, 2.0], "iris", **bearer("ann"))
    with guarded.client() as client:

        def ask() -> Response:
            client.send(question)
            return client.answer()

        for clock.time in (START, START + 50, START + 99.9):
            assert [ask().status for _ in range(3)] == [200] * 3
        clock.time = START + 100
        assert [ask().status for _ in range(3)] == [401] * 3
        assert "expired" in ask().error
        clock.time = START + 99
        assert ask().status == 200


def test_a_known_head_is_forgotten_with_the_table(guarded: Gateway, folder: Path, runtime: Runtime) -> None:
    """The name stays, and belongs to another model now."""
    question = infer_request([1.0], "iris-1", **bearer("ann"))
    with guarded.client() as client:

        def ask() -> int:
            client.send(question)
            return client.answer().status

        assert [ask() for _ in range(3)] == [200] * 3
        before = table(runtime.address)
        moved = Route(namespace="default", name="iris-1", version="1", model="rose", plan=Plan(servers=("default/r",)))
        publish(folder / "table.json", Table(servers=before.servers, routes=(moved,)))
        until(lambda: ask() == 403)


def test_pipelined_requests_are_each_judged_by_their_own_token(guarded: Gateway) -> None:
    people = ["ann", "zoe", "", "ann", "bob", "root", "ann", "eve", "root", ""]
    codes = {"ann": 200, "root": 200, "bob": 403, "eve": 403, "zoe": 401, "": 401}
    rng = random.Random(7)
    with guarded.client() as client:
        for _ in range(30):
            rng.shuffle(people)
            data = b"".join(
                infer_request([float(n)], rng.choice(("iris", "ir%69s")), **bearer(who)) for n, who in enumerate(people)
            )
            cut = rng.randrange(len(data))
            client.send(data[:cut])
            client.send(data[cut:])
            for n, who in enumerate(people):
                answer = client.answer()
                assert answer.status == codes[who], (who, answer)
                assert answer.status != 200 or answer.sums == [n]


def test_who_may_not_is_told_before_they_send_and_nothing_of_it_is_kept(guarded: Gateway, folder: Path) -> None:
    large = b"x" * 500_000
    with guarded.client() as client:
        head = request("POST", "/v2/models/iris/infer", Content_Length=str(len(large)), Expect="100-continue")
        client.send(head)
        assert client.answer().status == 401
    with guarded.client() as client:
        client.send(request("POST", "/v2/models/iris/infer", large, **bearer("eve")))
        assert client.answer().status == 403
        client.send(infer_request([1.0], "iris", **bearer("ann")))
        assert client.answer().status == 200


def test_rights_that_end_while_the_body_comes_are_no_rights(guarded: Gateway, folder: Path) -> None:
    for path in ("/v2/models/iris/infer", "/v2/models/ir%69s/infer"):
        permit(folder)
        until(lambda: predict(guarded, "ann").status == 200)
        question = request("POST", path, body_of([1.0]), **bearer("ann"))
        with guarded.client() as client:
            client.send(question[:-5])
            permit(folder, PASSES[:1])
            until(lambda: predict(guarded, "ann").status == 401)
            client.send(question[-5:])
            assert client.answer().status == 401


def test_refusals_are_written_down_without_what_was_sent(guarded: Gateway, folder: Path) -> None:
    predict(guarded, "eve", "/iris")
    predict(guarded, "zoe", "/iris")
    see(guarded, "", "/rose")
    guarded.ask("POST", "/v2/models/iris/infer", b"{}", Host="evil.example", Authorization="Bearer ann-token")
    guarded.ask("GET", "/v2/models/rose?key=query-secret", Authorization="Bearer query-secret")
    found = [(one.actor, one.verb, one.kind, one.name, one.code, one.method, one.path) for one in noted(folder)]
    assert found == [
        ("eve", "predict", "Model", "iris", 403, "POST", "/v2/models/iris/infer"),
        ("anonymous", "authenticate", "Plane", "", 401, "POST", "/v2/models/iris/infer"),
        ("anonymous", "read", "Model", "rose", 401, "GET", "/v2/models/rose"),
        ("anonymous", "authenticate", "Plane", "", 403, "POST", "/v2/models/iris/infer"),
    ], "the last one is like the second, and only counted"
    text = b"".join(file.read_bytes() for file in (folder / "refusals").iterdir())
    for secret in (b"query-secret", b"zoe-token", b"ann-token", b"eve-token"):
        assert secret not in text
    (file,) = (folder / "refusals").iterdir()
    assert file.stat().st_mode & 0o077 == 0


def test_floods_of_one_refusal_are_counted(guarded: Gateway, folder: Path) -> None:
    with guarded.client() as client:
        for _ in range(50):
            client.send(infer_request([1.0], "iris", **bearer("eve")))
            assert client.answer().status == 403
    until(lambda: sum(one.count for one in noted(folder)) == 50)
    assert len(noted(folder)) < 10
