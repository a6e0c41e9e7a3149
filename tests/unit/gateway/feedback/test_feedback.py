"""POST .../feedback: what is credited, and what is refused."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mizzen.gateway.access.authorizer import Authorizer
from mizzen.gateway.feedback.routes import FIELDS, FeedbackApi
from mizzen.gateway.http.asgi_app import App
from mizzen.graph import table_types
from mizzen.selection.feedback_writer import FeedbackWriter
from tests.support.gateway.judging import DAY, EXP3, LABEL, SCORE, World, asked, graph
from tests.support.golden import Golden


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, graph())
    yield world
    world.log.close()


def refused(answer: tuple[int, Any]) -> tuple[int, str]:
    code, body = answer
    assert list(body) == ["error"]
    return code, body["error"]


def test_a_reward_is_credited_to_the_arm_that_answered(world: World) -> None:
    id_ = world.answered(arm="b")
    assert world.post({"id": id_, "reward": 0.9}) == (200, {"id": id_, "reward": 0.9, "counted": True})
    assert world.state() == {"b": (1, 0.9), "c": (0, 0.0)}
    assert world.qualities() == [("a", "1", 1, 0.9, 0, 0.0), ("b", "7", 1, 0.9, 0, 0.0)]
    assert world.figures() == {
        'mizzen_feedback_total{node="a",arm="b"}': 1,
        'mizzen_feedback_reward_sum{node="a",arm="b"}': 0.9,
    }


def test_a_reward_of_nothing_counts(world: World) -> None:
    assert world.post({"id": world.answered(), "reward": 0})[1]["counted"] is True
    assert world.state()["b"] == (1, 0.0)
    assert world.figures()['mizzen_feedback_total{node="a",arm="b"}'] == 1
    assert world.figures()['mizzen_feedback_reward_sum{node="a",arm="b"}'] == 0


@pytest.mark.parametrize("path", ["/v2/models/g/versions/1/feedback", "/ns/default/v2/models/g/feedback"])
def test_it_may_be_given_to_a_version_or_a_namespace(world: World, path: str) -> None:
    assert world.post({"id": world.answered(), "reward": 1}, path=path)[0] == 200


def test_the_same_feedback_counts_once_and_another_is_in_conflict(world: World) -> None:
    id_ = world.answered()
    same = [{"id": id_, "reward": 1}, {"id": id_, "reward": 1.0}, {"reward": 1, "id": id_.upper(), "truth": None}]
    assert [world.post(body)[1]["counted"] for body in same] == [True, False, False]
    for other in ({"reward": 0}, {"reward": 1, "truth": 1}):
        code, text = refused(world.post({"id": id_, **other}))
        assert code == 409
        assert text == f"request '{id_}' already has different feedback"
    assert world.state()["b"] == (1, 1.0)
    assert sum(world.figures().values()) == 2


def test_of_many_at_once_each_counts_once(world: World) -> None:
    ids = [world.answered(arm="bc"[number % 2]) for number in range(20)]
    answers = world.posts(*({"id": id_, "reward": 0.5} for id_ in ids * 3))
    assert [code for code, _ in answers] == [200] * 60
    assert sum(body["counted"] for _, body in answers) == 20
    assert world.state() == {"b": (10, 5.0), "c": (10, 5.0)}


def test_a_truth_is_compared_with_the_answer(world: World) -> None:
    right, wrong = world.answered(outputs=LABEL), world.answered(outputs=LABEL)
    near = world.answered(outputs=SCORE, arm="c", ran=(("c", "2"),))
    assert world.post({"id": right, "truth": [1]})[1] == {"id": right, "reward": 1.0, "counted": True}
    assert world.post({"id": right, "truth": [1.0]})[1]["counted"] is False
    assert world.post({"id": wrong, "truth": {"predict": 2}})[1]["reward"] == 0.0
    assert world.post({"id": near, "truth": 1.0})[1]["reward"] == 0.75
    assert world.state() == {"b": (2, 1.0), "c": (1, 0.75)}
    assert world.qualities() == [
        ("a", "1", 2, 1.0, 2, 1.0), ("b", "7", 2, 1.0, 2, 1.0), ("c", "2", 1, 0.75, 1, 0.75),
    ]  # fmt: skip
    figures = world.figures()
    assert figures['mizzen_feedback_accuracy_sum{node="b",version="7"}'] == 1.0
    assert figures['mizzen_feedback_accuracy_count{node="b",version="7"}'] == 2


def test_a_reward_beside_a_truth_is_the_reward(world: World) -> None:
    id_ = world.answered()
    assert world.post({"id": id_, "reward": 0.25, "truth": 1})[1]["reward"] == 0.25
    assert world.qualities()[0] == ("a", "1", 1, 0.25, 1, 1.0)


def test_a_truth_that_cannot_be_compared_is_refused(world: World, golden: Golden) -> None:
    large = world.answered(outputs=b"x" * 5000)
    for truth, why in (([1, 2], "truth: for output 'predict': shape"), ("1", "expected numbers")):
        code, text = refused(world.post({"id": world.answered(), "truth": truth}))
        assert (code, why in text) == (422, True)
    code, text = refused(world.post({"id": large, "truth": 1}))
    assert code == 422
    golden.check(text)
    assert world.post({"id": large, "truth": 1, "reward": 1})[0] == 200
    assert world.qualities()[0] == ("a", "1", 1, 1.0, 0, 0.0)


@pytest.mark.parametrize(
    "reward", ["true", "false", '"0.5"', "[1]", "{}", "-0.001", "1.001", "2", "NaN", "Infinity", "-Infinity", "1e999"]
)
def test_what_is_no_reward_is_refused(world: World, reward: str) -> None:
    code, text = refused(world.post(f'{{"id": "{world.answered()}", "reward": {reward}}}'.encode()))
    assert (code, text) == (422, "reward: expected a number from 0 to 1")
    assert not (world.folder / "state.db").exists()


@pytest.mark.parametrize("reward", [0, 1, 0.0, 1.0, 1e-300])
def test_what_is_one_is_taken(world: World, reward: float) -> None:
    assert world.post({"id": world.answered(), "reward": reward})[1]["reward"] == reward


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"", 400, "the body is empty"),
        (b"{", 400, "the body is not JSON"),
        (b"[" * 100_000, 413, "larger than"),
        (b"[" * 5_000, 400, "nested too deeply"),
        (b"[]", 400, "the body: expected an object"),
        ({"reward": 1}, 400, "id: is missing"),
        ({"id": 1, "reward": 1}, 400, "id: expected a string"),
        ({"id": None, "reward": 1}, 400, "id: expected a string"),
        ({"id": "", "reward": 1}, 400, "id: expected a string that is not empty"),
        ({"id": "x" * 9000, "reward": 1}, 400, "id: expected a string of at most"),
        ({"id": "x", "rewards": 1}, 400, "rewards: is not a field of feedback; did you mean 'reward'?"),
        ({"id": "x", "score": 1}, 400, "fields are " + ", ".join(FIELDS)),
        ({"id": "x", "reward": 1, "user": 7}, 400, "user: expected a string"),
        ({"id": "x", "reward": 1, "routing": ["a=b"]}, 400, "routing: expected a string"),
        ({"id": "x"}, 422, "reward and truth are both missing"),
        ({"id": "x", "reward": None, "truth": None}, 422, "reward and truth are both missing"),
        (b'{"id": "x", "truth": [NaN]}', 422, "truth: holds a number that is not finite"),
        (b'{"id": "x", "truth": {"a": 1e999}}', 422, "truth: holds a number that is not finite"),
        ({"id": "x", "reward": 1}, 404, "no record of request 'x': it is unknown, or too old"),
        ({"id": "\u00fc" * 300, "reward": 1}, 404, "no record of request"),
    ],
)
def test_what_cannot_be_taken_says_why(world: World, body: Any, code: int, text: str) -> None:
    got, said = refused(world.post(body))
    assert (got, text in said) == (code, True), said
    assert world.metrics.refused[code] == 1


def test_only_post_is_taken(world: World) -> None:
    assert world.post({}, method="GET")[0] == 405


def test_an_id_that_is_too_old_is_unknown(world: World) -> None:
    id_ = world.answered()
    world.now += DAY
    assert world.post({"id": id_, "reward": 1})[0] == 200
    other = world.answered()
    world.now += DAY + 1
    assert world.post({"id": other, "reward": 1})[0] == 404


def test_an_id_that_the_client_chose_is_found(world: World) -> None:
    world.answered(arm="c", chosen="mine")
    assert world.post({"id": "mine", "reward": 1})[1] == {"id": "mine", "reward": 1.0, "counted": True}
    assert world.post({"id": "mine", "reward": 0})[0] == 409
    world.answered(arm="b", chosen="mine")
    assert world.post({"id": "mine", "reward": 0})[1]["counted"] is True, "another request of the same name"
    assert world.state() == {"b": (1, 0.0), "c": (1, 1.0)}


@pytest.mark.parametrize("spelled", ["z\u00fc 1", "z%C3%BC%201"])
def test_an_id_that_is_no_header_is_found_either_way(world: World, spelled: str) -> None:
    world.answered(chosen="z%C3%BC%201")
    assert world.post({"id": spelled, "reward": 1})[0] == 200


def test_a_name_that_keeps_no_records_says_what_would(world: World) -> None:
    code, text = refused(world.post({"id": "x", "reward": 1}, path="/v2/models/plain/feedback"))
    assert code == 409
    assert "`feedback: {}`" in text
    assert world.post({"id": "x", "reward": 1}, path="/v2/models/none/feedback")[0] == 404


def test_a_model_without_a_graph_has_scores_and_no_arms(world: World) -> None:
    world.serve(None)
    id_ = world.answered(arm="", ran=(("g", "1"),))
    assert world.post({"id": id_, "truth": 1})[1]["counted"] is True
    assert world.state() == {}
    assert world.qualities() == [("g", "1", 1, 1.0, 1, 1.0)]
    assert world.figures()['mizzen_feedback_total{node="",arm=""}'] == 1
    assert refused(world.post({"id": "x", "reward": 1, "routing": "a=b"})) == (422, "routing: 'g' is not a graph")


def test_who_may_not_predict_may_not_judge(world: World) -> None:
    world.service.permits = Authorizer(None, anonymous=False, wall=time.time)
    assert world.post({"id": world.answered(), "reward": 1})[0] in (401, 503)
    assert not (world.folder / "state.db").exists()


def test_a_state_that_cannot_be_written_is_503(world: World) -> None:
    id_ = world.answered()
    (world.folder / "state.db").mkdir()
    code, text = refused(world.post({"id": id_, "reward": 1}))
    assert code == 503
    assert "feedback cannot be written" in text
    assert world.figures() == {}
    (world.folder / "state.db").rmdir()
    assert world.post({"id": id_, "reward": 1})[1]["counted"] is True


def test_a_gateway_without_feedback_says_so(world: World) -> None:
    app = App(world.service, list)
    code, _ = asyncio.run(asked(app, "POST", "/v2/models/g/feedback", b"{}"))
    assert code == 503


# Without a record


def test_routing_stands_in_for_a_record(world: World) -> None:
    body = {"id": "unknown", "reward": 1, "routing": "a=c"}
    assert world.post(body)[1]["counted"] is True
    assert world.post(body)[1]["counted"] is False
    assert world.post(body | {"reward": 0.5})[0] == 409
    assert world.state() == {"b": (0, 0.0), "c": (1, 1.0)}
    assert world.qualities() == [], "which versions ran is not known"


@pytest.mark.parametrize(
    ("routing", "why"),
    [
        ("a", "'a' is not in the form node=child"),
        ("a=b;", "'' is not in the form node=child"),
        ("a=b@x", "is not in the form node=child"),
        ("a=b@1.5", "'@1.5' is not a probability"),
        ("a=b@0", "is not a probability"),
        ("a=b@1e", "is not a probability"),
        ("x=b", "'x' is not a node that routes; there are a"),
        ("b=c", "'b' is not a node that routes"),
        ("a=a", "'a' does not route to 'a'; there are b, c"),
        ("a=B", "is not in the form node=child"),
    ],
)
def test_routing_that_the_graph_cannot_have_is_refused(world: World, routing: str, why: str) -> None:
    code, text = refused(world.post({"id": "unknown", "reward": 1, "routing": routing}))
    assert code == 422
    assert text.startswith("routing: ")
    assert why in text


def test_names_that_are_nearly_right_are_suggested(world: World) -> None:
    world.serve(graph(arms=("model-one", "model-two")))
    code, text = refused(world.post({"id": "unknown", "reward": 1, "routing": "a=model-on"}))
    assert (code, text) == (422, "routing: 'a' does not route to 'model-on'; did you mean 'model-one'?")


def test_a_truth_alone_needs_a_record(world: World) -> None:
    code, text = refused(world.post({"id": "unknown", "truth": 1, "routing": "a=c"}))
    assert (code, "without a record" in text) == (422, True)


def test_exp3_needs_the_probability(world: World) -> None:
    world.serve(graph(EXP3))
    code, text = refused(world.post({"id": "unknown", "reward": 0, "routing": "a=c"}))
    assert (code, "lacks its probability" in text) == (422, True)
    assert world.post({"id": "unknown", "reward": 0, "routing": "a=c@0.5"})[0] == 200
    assert world.state() == {"b": (0, 0.0), "c": (1, 0.0)}


def test_routing_of_a_node_that_ran_more_than_once(world: World) -> None:
    body = {"id": "unknown", "reward": 1, "routing": "a/x=b;a/y=c;a/z/w=b"}
    assert world.post(body)[1]["counted"] is True
    assert world.state() == {"b": (1, 1.0), "c": (1, 1.0)}


def test_one_run_of_a_node_takes_one_way(world: World) -> None:
    code, text = refused(world.post({"id": "unknown", "reward": 1, "routing": "a=b;a=c"}))
    assert (code, "'a' appears with two choices" in text) == (422, True)
    code, text = refused(world.post({"id": "unknown", "reward": 1, "routing": "a="}))
    assert (code, "names no child" in text) == (422, True)


def test_without_a_record_other_routing_is_other_feedback(world: World) -> None:
    assert world.post({"id": "claimed", "reward": 1, "routing": "a=b"})[1]["counted"] is True
    assert world.post({"id": "claimed", "reward": 1, "routing": "a=b"})[1]["counted"] is False
    assert world.post({"id": "claimed", "reward": 1, "routing": "a=c"})[0] == 409


@pytest.mark.parametrize("depth", [100, 450, 600, 5000])
def test_truths_of_any_depth_are_refused_in_words(world: World, depth: int) -> None:
    id_ = world.answered().encode()
    code, _ = world.post(b'{"id":"%b","truth":%b1%b}' % (id_, b"[" * depth, b"]" * depth))
    assert code in (400, 422)


# With one


@pytest.mark.parametrize(("routing", "code"), [("a=b", 200), ("a=b@0.25", 200), ("a=c", 422), ("a=b,c", 422)])
def test_routing_must_not_contradict_the_record(world: World, routing: str, code: int) -> None:
    answer = world.post({"id": world.answered(arm="b"), "reward": 1, "routing": routing})
    assert answer[0] == code
    if code == 422:
        assert "contradicts the record of this request: 'a' took b" in answer[1]["error"]


def test_a_bandit_that_did_not_run_cannot_be_claimed(world: World) -> None:
    code, text = refused(world.post({"id": world.answered(arm=""), "reward": 1, "routing": "a=b"}))
    assert (code, "'a' did not run" in text) == (422, True)


def test_a_node_that_is_not_there_cannot_be_claimed_beside_a_record(world: World) -> None:
    code, text = refused(world.post({"id": world.answered(arm="b"), "reward": 1, "routing": "nowhere=b"}))
    assert (code, "'nowhere' is not a node that routes" in text) == (422, True)


def test_an_arm_that_is_gone_since_learns_nothing(world: World) -> None:
    gone, stays = world.answered(arm="c"), world.answered(arm="b")
    world.serve(graph(arms=("b", "d")))
    assert world.post({"id": gone, "reward": 1, "routing": "a=c"})[1]["counted"] is True
    assert world.state() == {}
    assert world.post({"id": stays, "reward": 1})[1]["counted"] is True
    assert world.state() == {"b": (1, 1.0), "d": (0, 0.0)}
    assert world.qualities()[0] == ("a", "1", 2, 2.0, 0, 0.0)


def test_a_node_that_is_no_bandit_any_more_learns_nothing(world: World) -> None:
    id_ = world.answered(arm="b")
    world.serve(graph(None))
    assert world.post({"id": id_, "reward": 1})[1]["counted"] is True
    assert world.state() == {}
    assert world.figures()['mizzen_feedback_total{node="a",arm="b"}'] == 1, "splits are compared, too"


def test_feedback_is_for_the_user_of_the_request(world: World) -> None:
    world.serve(graph(table_types.Policy(name="egreedy", epsilon=0.1, per_user=True)))
    assert world.post({"id": world.answered(user="zo\u00eb"), "reward": 1})[0] == 200
    assert world.post({"id": world.answered(user="zo\u00eb"), "reward": 1, "user": "zo\u00eb"})[0] == 200
    assert world.post({"id": world.answered(user="ann"), "reward": 1})[0] == 200
    assert world.post({"id": world.answered(), "reward": 0.5})[0] == 200
    assert world.state("zo\u00eb")["b"] == (2, 2.0)
    assert world.state("ann")["b"] == (1, 1.0)
    assert world.state()["b"] == (1, 0.5)
    code, text = refused(world.post({"id": world.answered(user="zo\u00eb"), "reward": 1, "user": "ann"}))
    assert (code, text) == (422, "user: does not match this request; the request was for another user")
    code, text = refused(world.post({"id": world.answered(), "reward": 1, "user": "ann"}))
    assert (code, text) == (422, "user: does not match this request; the request named no user")
    assert world.state("ann")["b"] == (1, 1.0)


def test_who_leaves_before_it_is_written_has_given_it_all_the_same(world: World) -> None:
    body = json.dumps({"id": world.answered(), "reward": 1}).encode()
    other = sqlite3.connect(world.folder / "state.db", isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")

    async def run() -> list[Any]:
        loop = asyncio.get_running_loop()
        desk = FeedbackWriter(
            world.folder / "state.db", world.folder / "word", Random(1), post=loop.call_soon_threadsafe
        )
        app = App(world.service, list, feedback=FeedbackApi(world.folder / "records", desk, world.service))
        sent: list[Any] = []
        parts = iter([{"type": "http.request", "body": body, "more_body": False}, {"type": "http.disconnect"}])

        async def receive() -> Any:
            return next(parts)

        async def send(message: Any) -> None:
            sent.append(message)

        other.execute("BEGIN IMMEDIATE")
        scope: Any = {"type": "http", "method": "POST", "raw_path": b"/v2/models/g/feedback", "headers": []}
        await app(scope, receive, send)
        other.execute("ROLLBACK")
        await asyncio.to_thread(desk.close)
        await asyncio.sleep(0)
        return sent

    try:
        assert asyncio.run(run()) == []
    finally:
        other.close()
    assert world.state()["b"] == (1, 1.0)
    assert sum(world.figures().values()) == 2


def test_figures_live_as_long_as_their_name(world: World) -> None:
    world.post({"id": world.answered(), "truth": 1})
    world.metrics.retain({("default", "g", "2")})
    assert len(world.figures()) == 6
    world.metrics.retain({("default", "h", "1")})
    assert world.figures() == {}
