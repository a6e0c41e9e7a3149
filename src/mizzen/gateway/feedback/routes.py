"""POST .../feedback: how well a request was answered. It is credited to what ran for that request, and to nothing else.

What ran is in the record that was kept of it (`selection/records`), or said by the answer's `routing`, sent back. Who
sent it is answered when it is durable, and every gateway chooses by it (`selection/feedback_writer.py`). After that
models that want to know are told, children before parents; nobody waits for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import hashlib
import json
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mizzen.errors import Conflict, Invalid, NotFound
from mizzen.gateway.feedback import accuracy as feedback_accuracy
from mizzen.gateway.feedback import record_keeper, routing_parameter
from mizzen.gateway.inference.inference import Service
from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.request.responses import Answer, told
from mizzen.gateway.route_table import Endpoint
from mizzen.graph import table_types
from mizzen.protocol import v2
from mizzen.selection.feedback_writer import Desk
from mizzen.selection.records.lookup import find
from mizzen.selection.records.record import Decision, Found, Run
from mizzen.selection.records.segments import MAX_OUTPUTS
from mizzen.selection.state_db import Credit, Given, Outcome, Score

FIELDS = ("id", "reward", "truth", "user", "routing")
MAX_ID, MAX_ROUTING = v2.MAX_ID * 12, 32 << 10
_CLOSE = 0.75

log = logging.getLogger(__name__)


class Said(NamedTuple):
    """The body of a request, as far as it can be judged by itself."""

    id: str
    reward: float | None
    truth: Any
    """None: nobody says."""
    user: str
    decisions: list[Decision] | None
    """What the answer's `routing` says; None: it was not sent back."""


class _Case(NamedTuple):
    """A feedback, and all that it is for."""

    endpoint: Endpoint
    said: Said
    reward: float
    accuracy: Mapping[str, float]
    """Of nodes whose own answer can be compared with the truth."""
    decisions: list[Decision]
    """Those that can be made now, too."""
    ran: Sequence[Run]


class Feedback:
    def __init__(self, folder: Path, desk: Desk, service: Service) -> None:
        """`folder`: of the records of all gateways."""
        self._folder = folder
        self._desk = desk
        self._service = service

    async def answer(self, endpoint: Endpoint, body: bytes) -> Answer:
        """ValueError when the body cannot be read; Invalid, NotFound, Conflict; Unavailable when it cannot be written
        down."""
        said = read(body)
        kept = endpoint.kept
        if kept is None:
            raise Conflict(
                f"'{endpoint.name}' keeps no records of what answered, so there is nothing that feedback could be for: "
                "`feedback: {}` in its spec, or a bandit in its graph, makes it keep some"
            )
        now = self._service.wall()
        found = find(self._folder, kept.uid, v2.header_text(said.id), since=now - kept.max_seconds)
        decisions = _decisions(said, found, endpoint)
        _check_user(said, found)
        accuracy = _accuracy(said, found)
        reward = accuracy if said.reward is None else said.reward
        assert reward is not None
        known = _known(decisions, endpoint.graph)
        ran = () if found is None else found.what.ran
        own = _own(said, found, endpoint.graph, accuracy)
        case = _Case(endpoint, said, reward, own, known, ran)
        given = Given(
            uid=kept.uid,
            id=said.id if found is None else found.id.decode(),
            digest=_digest(reward, said.truth, None if found is not None else decisions),
            reward=reward,
            at=now,
            credits=_credits(known, endpoint.graph, said.user if found is None else found.user),
            scores=[Score(node, version, reward, own.get(node)) for node, version in case.ran],
        )
        outcome = await self._given(given, case)
        if outcome == "different":
            raise Conflict(f"request '{v2.cited(said.id)}' was given other feedback before")
        return told({"id": said.id, "reward": reward, "counted": outcome == "counted"})

    def close(self) -> None:
        """What was given is written first."""
        self._desk.close()

    async def _given(self, given: Given, case: _Case) -> Outcome:
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome | Exception) -> None:
            # Whoever sent it may have gone meanwhile. It counts all the same.
            if outcome == "counted":
                self._count(case)
            if future.done():
                return
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        self._desk.give(given, done)
        return await future

    def _count(self, case: _Case) -> None:
        metrics, endpoint = self._service.metrics, case.endpoint
        for node, arm in {(node, arm) for node, arm, _ in case.decisions} or {("", "")}:
            metrics.rewarded(endpoint.namespace, endpoint.name, node, arm, case.reward)
        for node, version in case.ran:
            if node in case.accuracy:
                metrics.judged(endpoint.namespace, endpoint.name, node, version, case.accuracy[node])
        if case.ran:
            try:
                self._tell(case)
            except Exception:  # the feedback counts, whatever becomes of this
                log.exception("models were not told of feedback")

    def _tell(self, case: _Case) -> None:
        body: bytes | None = None
        for node, version in reversed(case.ran):
            for queue in self._queues(case.endpoint, node, version):
                if queue.hello is None or not queue.hello.feedback:
                    continue
                body = body or _frame(case)
                if queue.tell(body):
                    break

    def _queues(self, endpoint: Endpoint, node: str, version: str) -> list[Queue]:
        """Of the version that ran, if it is served here still."""
        graph, queues = endpoint.graph, endpoint.queues
        if graph is not None:
            callee = next((each.call for each in graph.nodes if each.name == node), None)
            name = self._service.routes.names.get((endpoint.namespace, callee.name)) if callee is not None else None
            found = None if name is None else name.versions.get(version) or name.current
            queues = () if found is None else found.queues
        return [queue for queue in queues if queue.server.version == version]


def read(body: bytes) -> Said:
    """ValueError when it is no feedback at all, Invalid when what it says cannot be."""
    fields = _fields(body)
    for name in fields:
        if name not in FIELDS:
            close = difflib.get_close_matches(name, FIELDS, n=1, cutoff=_CLOSE)
            hint = f"did you mean '{close[0]}'?" if close else f"fields are {', '.join(FIELDS)}"
            raise ValueError(f"{v2.cited(name)}: is no field of feedback; {hint}")
    if "id" not in fields:
        raise ValueError("id: is missing")
    id_, user, routing = (_text(fields, name, most) for name, most in _TEXTS.items())
    if not id_:
        raise ValueError("id: expected a string that is not empty")
    reward, truth = fields.get("reward"), fields.get("truth")
    if reward is None and truth is None:
        raise Invalid("reward: is missing, and so is truth: one of them says how well it was answered")
    if reward is not None and not _is_reward(reward):
        raise Invalid("reward: expected a number from 0 to 1")
    try:
        finite = _is_finite(truth)
    except RecursionError:
        raise Invalid("truth: is nested too deeply") from None
    if not finite:
        raise Invalid("truth: holds a number that is not finite")
    try:
        decisions = routing_parameter.read(routing) if routing else None
    except ValueError as fault:
        raise Invalid(f"routing: {fault}") from None
    return Said(id_, None if reward is None else float(reward), truth, user, decisions)


_TEXTS = {"id": MAX_ID, "user": v2.MAX_CITED, "routing": MAX_ROUTING}
"""Most characters of each. An id is longer where it is spelled as headers have it."""


def _fields(body: bytes) -> dict[str, Any]:
    try:
        found = v2.read(msgspec.json.decode, body)
    except ValueError as fault:
        try:
            # Python's own reader takes NaN and numbers beyond all bounds, which many clients send: they are told so.
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise fault from None
    if not isinstance(found, dict):
        raise ValueError("the body: expected an object")  # noqa: TRY004 - bad data, not a bad call
    return found


def _text(fields: dict[str, Any], name: str, most: int) -> str:
    value = fields.get(name)
    if value is None and name != "id":
        return ""
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"{name}: expected a string of at most {most} characters")
    return value


def _is_reward(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _is_finite(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_finite, value))
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    return not isinstance(value, float) or math.isfinite(value)


def _decisions(said: Said, found: Found | None, endpoint: Endpoint) -> list[Decision]:
    """As recorded; as the client says where there is no record."""
    graph, claimed = endpoint.graph, said.decisions
    if found is not None:
        if claimed is not None and (fault := routing_parameter.contradicts(claimed, found.what.decisions, graph)):
            raise Invalid(f"routing: contradicts what is known of this request: {fault}")
        return found.what.decisions
    if claimed is None:
        raise NotFound(
            f"no record of request '{v2.cited(said.id)}': it is unknown, or too old; "
            "the parameter `routing` of its answer may be sent as `routing`"
        )
    if graph is None:
        raise Invalid(f"routing: '{endpoint.name}' is no graph")
    try:
        routing_parameter.check(claimed, graph)
    except ValueError as fault:
        raise Invalid(f"routing: {fault}") from None
    return claimed


def _check_user(said: Said, found: Found | None) -> None:
    if found is not None and said.user and said.user != found.user:
        whose = "it was for nobody in particular" if not found.user else "it was for another one"
        raise Invalid(f"user: is not that of this request; {whose}")


def _accuracy(said: Said, found: Found | None) -> float | None:
    """By the truth, if it is given. Where it can be compared with nothing, a reward has to do."""
    if said.truth is None:
        return None
    if found is not None and found.outputs:
        try:
            return feedback_accuracy.accuracy(found.outputs, said.truth)
        except ValueError as fault:
            raise Invalid(f"truth: {fault}") from None
    if said.reward is not None:
        return None
    if found is None:
        raise Invalid("truth: without a record there is no answer to compare it with; send a reward")
    raise Invalid(f"truth: the answer had more than {MAX_OUTPUTS} bytes and was not kept; send a reward")


def _own(
    said: Said, found: Found | None, graph: table_types.Graph | None, accuracy: float | None
) -> Mapping[str, float]:
    """How right each node that ran was: as the answer was, unless others had a part in that. Of members of an ensemble
    it is what they gave themselves that counts."""
    if accuracy is None or found is None:
        return {}
    merged = set() if graph is None else _merged(graph)
    own = {node: accuracy for node, _ in found.what.ran if node not in merged}
    for node, kept in record_keeper.parts(found.outputs or b"")[0].items():
        with contextlib.suppress(ValueError):  # it gave something else than what is answered
            own[node] = feedback_accuracy.accuracy(kept, said.truth)
    return own


def _merged(graph: table_types.Graph) -> set[str]:
    """Nodes whose answers are merged with those of others on the way."""
    behind: set[int] = set()
    for place in reversed(range(len(graph.nodes))):
        node = graph.nodes[place]
        if place in behind or node.merge is not None:
            behind |= set(node.dependencies)
    return {graph.nodes[place].name for place in behind}


def _known(decisions: Sequence[Decision], graph: table_types.Graph | None) -> list[Decision]:
    """Those whose node and child are there still: others have nobody to learn from them."""
    arms = (
        {}
        if graph is None
        else {node.name: routing_parameter.arms_of(graph, node.route) for node in graph.nodes if node.route}
    )
    return [each for each in decisions if each[1] in arms.get(each[0], ())]


def _credits(decisions: Sequence[Decision], graph: table_types.Graph | None, user: str) -> list[Credit]:
    if graph is None:
        return []
    routes = {node.name: node.route for node in graph.nodes if node.route is not None}
    found = {
        (node, arm): Credit(node, route.policy, routing_parameter.arms_of(graph, route), arm, likely, user)
        for node, arm, likely in decisions
        if (route := routes[node]).kind == "mab" and route.policy is not None
    }
    # A node that ran more than once for the request has one feedback all the same.
    return list(found.values())


def _digest(reward: float, truth: Any, claimed: Sequence[Decision] | None) -> bytes:
    """Of all that makes one feedback another: 1 and 1.0 are the same. `claimed`: whom it is for, where no record says
    so."""
    said = [reward, _plain(truth)] if claimed is None else [reward, _plain(truth), claimed]
    text = msgspec.json.encode(said, order="sorted")
    return hashlib.blake2b(text, digest_size=16).digest()


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _frame(case: _Case) -> bytes:
    told: dict[str, Any] = {"id": case.said.id, "reward": case.reward}
    if case.said.truth is not None:
        told["truth"] = case.said.truth
    return msgspec.msgpack.encode(told)
