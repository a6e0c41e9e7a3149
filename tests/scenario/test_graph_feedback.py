"""What gateways have to agree on, and what has to outlive them: sticky splits, what bandits have learnt, records."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import httpx2
import pytest

from tests.support import graphs, grpcs, planes
from tests.support.graphs import API, Answer, Graphs, node

T = TypeVar("T")

GATEWAYS = ("--gateways", "2")
ADDED = {"b": 2.0, "c": 3.0}
MODELS = """
def two(inputs):
    return {"x": next(iter(inputs.values())) + 2}


def three(inputs):
    return {"x": next(iter(inputs.values())) + 3}
"""
ARMS = (node("b", "two", "a"), node("c", "three", "a"))
USERS = [f"user-{number}" for number in range(24)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graphs]:
    folder = tmp_path_factory.mktemp("feedback")
    with planes.running_plane(folder / "data", *GATEWAYS) as plane:
        graphs.deploy(plane, folder, MODELS, ("two", "three"))
        with graphs.graphs_of(plane) as found:
            yield found


def kill(served: Graphs, *keys: str) -> None:
    for key in keys:
        os.kill(served.plane.pid(key), signal.SIGKILL)


def at_last(ask: Callable[..., T], *words: Any, **more: Any) -> T:
    """A connection may have been with a process that was killed, or come before its successor is there."""
    found: list[T] = []

    def answered() -> bool:
        with contextlib.suppress(httpx2.HTTPError):
            found.append(ask(*words, **more))
        return bool(found)

    planes.wait_until(answered, "somebody answers")
    return found[0]


# Sticky splits


def branches(served: Graphs, name: str, header: str) -> dict[str, str]:
    """Which child each user goes to, asked on connections of their own."""
    found = {}
    for user in USERS:
        answer = at_last(served.ask_apart, name, **{header: user})
        assert answer.code == 200, answer.said
        found[user] = answer.parameters["routing"]
    return found


def test_equal_keys_go_the_same_way_whoever_answers(served: Graphs) -> None:
    for name, key in (("by-user", "user"), ("by-header", "header:X-Session")):
        served.serve(name, node("a", route={"split": {"key": key}}), *ARMS)
    by_user, by_header = branches(served, "by-user", "mizzen_user"), branches(served, "by-header", "x_session")
    for found in (by_user, by_header):
        assert set(found.values()) == {"a=b", "a=c"}, "not all go the same way"
    assert by_user != by_header, "and not the same way in all graphs"
    assert branches(served, "by-user", "mizzen_user") == by_user
    for user in USERS[:4]:
        assert served.ask("by-user", parameters={"user": user}).parameters["routing"] == by_user[user]
        with grpcs.calling(served.plane.grpc_address) as call:
            message = grpcs.request_of("by-user", [1.0], "x")
            message.parameters["user"].string_param = user
            assert call.infer(message).parameters["routing"].string_param == by_user[user]
    kill(served, "gateway-0", "gateway-1", "plane")
    assert branches(served, "by-user", "mizzen_user") == by_user
    assert branches(served, "by-header", "x_session") == by_header


# Bandits


def arms(served: Graphs, name: str) -> dict[str, tuple[int, float]]:
    """Count and mean of each arm, as it is stored."""
    [bandit] = served.control.get(f"/graph/{name}/state").json()["nodes"]
    return {arm["arm"]: (arm["count"], arm["mean"] or 0.0) for arm in bandit["arms"]}


def arm_of(answer: Answer) -> str:
    arm: str = answer.parameters["routing"].removeprefix("a=")
    assert answer.outputs == {"x": [1 + ADDED[arm], 2 + ADDED[arm]]}, "it is the one that answered"
    return arm


def learn(served: Graphs, name: str) -> Counter[str]:
    """Rewards of 0.75 for `c` and of 0.25 for `b`, through both gateways."""
    given: Counter[str] = Counter()
    while given.total() < 20 or not given["c"]:
        answer = at_last(served.ask_apart, name)
        said = at_last(served.reward, name, answer.said["id"], reward=reward_for(answer))
        assert (said.code, said.said["counted"]) == (200, True)
        given[arm_of(answer)] += 1
    return given


def reward_for(answer: Answer) -> float:
    return 0.75 if arm_of(answer) == "c" else 0.25


def stored(given: Counter[str]) -> dict[str, tuple[int, float]]:
    return {arm: (given[arm], reward if given[arm] else 0.0) for arm, reward in (("b", 0.25), ("c", 0.75))}


def test_what_is_rewarded_is_done_more_often(served: Graphs) -> None:
    served.serve("learns", node("a", route={"mab": {"egreedy": 0.2}}), *ARMS)
    given = learn(served, "learns")
    assert arms(served, "learns") == stored(given)
    # Of 100, 80 are expected; fewer than 55 come about once in a hundred million times.
    assert sum(arm_of(served.ask("learns")) == "c" for _ in range(100)) > 55
    both = "both gateways tell what they were told"
    planes.wait_until(lambda: served.metrics("mizzen_feedback_total", model="learns") == given.total(), both)
    late = served.ask("learns")
    kill(served, "gateway-0", "gateway-1")
    said = at_last(served.reward, "learns", late.said["id"], reward=reward_for(late))
    assert (said.code, said.said["counted"]) == (200, True), "the record outlived who wrote it"
    given[arm_of(late)] += 1
    assert arms(served, "learns") == stored(given)


def test_a_restart_of_all_forgets_nothing(served: Graphs) -> None:
    served.serve("sticks", node("a", route={"split": {"key": "user"}}), *ARMS)
    served.serve("knows", node("a", route={"mab": {"egreedy": 0.2}}), *ARMS)
    ways = branches(served, "sticks", "mizzen_user")
    given = learn(served, "knows")
    first, second = served.ask("knows"), served.ask("knows")
    assert served.reward("knows", first.said["id"], reward=reward_for(first)).said["counted"]
    given[arm_of(first)] += 1
    served.restart(*GATEWAYS)
    planes.wait_until(lambda: at_last(served.ask, "sticks").code == 200, "models are there again")
    planes.wait_until(lambda: at_last(served.ask, "knows").code == 200, "and it knows them")
    assert branches(served, "sticks", "mizzen_user") == ways
    assert arms(served, "knows") == stored(given)
    again = served.reward("knows", first.said["id"], reward=reward_for(first))
    assert (again.code, again.said["counted"]) == (200, False), "it is known that this was counted"
    assert served.reward("knows", second.said["id"], reward=reward_for(second)).said["counted"]
    assert sum(arm_of(served.ask("knows")) == "c" for _ in range(100)) > 55


def test_feedback_counts_once_and_only_as_what_it_is(served: Graphs) -> None:
    served.serve("judged", node("a", route={"mab": {"egreedy": 0.5}}), *ARMS)
    served.serve("deaf", node("a", route={"split": {}}), *ARMS)
    answer = served.ask("judged")
    id_, arm = answer.said["id"], arm_of(answer)
    other = "b" if arm == "c" else "c"

    def refused(code: int, id_: str = id_, **said: Any) -> bool:
        found = served.reward("judged", id_, **said)
        assert found.code == code, found.said
        return "error" in found.said

    assert refused(404, "nobody-asked-this", reward=1)
    assert refused(422)
    for reward in ("1", True, 1.5, -0.1, [1]):
        assert refused(422, reward=reward)
    assert refused(422, reward=1, routing=f"a={other}")
    assert refused(422, reward=1, routing="x=b")
    assert refused(400, reward=1, rewrad=2)
    assert served.reward("deaf", served.ask("deaf").said["id"], reward=1).code == 409
    assert served.reward("nobody", id_, reward=1).code == 404
    assert served.reward("judged", id_, reward=0, routing=f"a={arm}").said == {"id": id_, "reward": 0, "counted": True}
    assert not served.reward("judged", id_, reward=0).said["counted"]
    assert refused(409, reward=1)
    assert arms(served, "judged")[arm] == (1, 0.0), "a reward of 0 counts"
    mine = served.ask("judged", id="mine")
    assert served.reward("judged", "mine", reward=1).said["counted"]
    lost = served.reward("judged", "unheard-of", reward=1, routing=f"a={arm_of(mine)}")
    assert lost.said["counted"], "the routing that the answer had does as well"
    assert sum(count for count, _ in arms(served, "judged").values()) == 3


def test_truth_tells_how_right_each_version_is(served: Graphs) -> None:
    patch: dict[str, Any] = {"spec": {"feedback": {}}}
    heads = {"content-type": "application/merge-patch+json"}
    changed = served.control.patch(f"{API}/inferencemodels/two-1", json=patch, headers=heads)
    assert changed.status_code == 200, changed.text

    judged: list[Answer] = []

    def kept() -> bool:
        judged.append(served.reward("two", served.ask("two").said["id"], truth=[3.0, 4.5]))
        return judged[-1].code == 200

    planes.wait_until(kept, "gateways keep records")
    assert (judged[-1].said["reward"], judged[-1].said["counted"]) == (0.75, True)

    def accuracy(what: str) -> float:
        return served.metrics(f"mizzen_feedback_accuracy_{what}", model="two", version="1")

    planes.wait_until(lambda: (accuracy("sum"), accuracy("count")) == (0.75, 1), "it is counted by version")
