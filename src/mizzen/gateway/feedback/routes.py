"""POST .../feedback: how well a request was answered. Only the nodes and arms that ran for the request get credit.

What ran is in the record of the request (`selection/records`), or in the answer's `routing`, which the client sends
back. The client gets its answer once the feedback is durable and every gateway uses it
(`selection/feedback_writer.py`). After that, models that accept feedback are notified, children before parents; no
request waits for them.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mizzen.errors import Conflict, Invalid, NotFound
from mizzen.gateway.context import GatewayContext
from mizzen.gateway.feedback import accuracy as feedback_accuracy
from mizzen.gateway.feedback import record_keeper, routing_parameter
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.request.responses import Answer, json_answer
from mizzen.graph import table_types
from mizzen.protocol import json_keys, v2
from mizzen.selection.feedback_writer import FeedbackWriter
from mizzen.selection.records.lookup import find
from mizzen.selection.records.record import RecordedDecision, RecordedRun, StoredRecord
from mizzen.selection.records.segments import MAX_OUTPUTS
from mizzen.selection.state_db import Credit, FeedbackEntry, FeedbackOutcome, Score

FIELDS = ("id", "reward", "truth", "user", "routing")
MAX_ID, MAX_ROUTING = v2.MAX_ID * 12, 32 << 10
_CLOSE = 0.75

log = logging.getLogger(__name__)


class FeedbackBody(NamedTuple):
    """The body of a feedback request, as far as it can be checked by itself."""

    id: str
    reward: float | None
    truth: Any
    """None if the client does not say."""
    user: str
    decisions: list[RecordedDecision] | None
    """The choices in the answer's `routing`; None if the client did not send it back."""


class _ResolvedFeedback(NamedTuple):
    """Feedback, with everything that it applies to."""

    endpoint: Endpoint
    body: FeedbackBody
    reward: float
    accuracy: Mapping[str, float]
    """By node, for nodes whose own answer can be compared with the truth."""
    decisions: list[RecordedDecision]
    """Only those that the current graph can still make."""
    ran: Sequence[RecordedRun]


@dataclass(frozen=True, slots=True, eq=False)
class FeedbackApi:
    folder: Path
    """The records of all gateways."""
    writer: FeedbackWriter
    service: GatewayContext

    async def answer(self, endpoint: Endpoint, body: bytes) -> Answer:
        """Raises ValueError if the body cannot be parsed; Invalid, NotFound or Conflict; Unavailable if the feedback
        cannot be written."""
        feedback = parse_feedback(body)
        limits = endpoint.kept
        if limits is None:
            raise Conflict(
                f"'{endpoint.name}' keeps no records of its answers, so it cannot take feedback: add "
                "`feedback: {}` to its spec, or a bandit to its graph"
            )
        now = self.service.wall()
        found = find(self.folder, limits.uid, v2.header_text(feedback.id), since=now - limits.max_seconds)
        decisions = _resolve_decisions(feedback, found, endpoint)
        _check_user(feedback, found)
        accuracy = _answer_accuracy(feedback, found)
        reward = accuracy if feedback.reward is None else feedback.reward
        assert reward is not None
        known = _current_decisions(decisions, endpoint.graph)
        ran = () if found is None else found.what.ran
        own = _accuracy_by_node(feedback, found, endpoint.graph, accuracy)
        case = _ResolvedFeedback(endpoint, feedback, reward, own, known, ran)
        entry = FeedbackEntry(
            uid=limits.uid,
            id=feedback.id if found is None else found.id.decode(),
            digest=_digest_of(reward, feedback.truth, None if found is not None else decisions),
            reward=reward,
            at=now,
            credits=_build_credits(known, endpoint.graph, feedback.user if found is None else found.user),
            scores=[Score(node, version, reward, own.get(node)) for node, version in case.ran],
        )
        outcome = await self._submit(entry, case)
        if outcome == "different":
            raise Conflict(f"request '{v2.shorten(feedback.id)}' already has different feedback")
        return json_answer({"id": feedback.id, "reward": reward, "counted": outcome == "counted"})

    def close(self) -> None:
        """Writes pending feedback first."""
        self.writer.close()

    async def _submit(self, entry: FeedbackEntry, case: _ResolvedFeedback) -> FeedbackOutcome:
        future: asyncio.Future[FeedbackOutcome] = asyncio.get_running_loop().create_future()

        def on_done(outcome: FeedbackOutcome | Exception) -> None:
            # The client may be gone by now. The feedback counts all the same.
            if outcome == "counted":
                self._count(case)
            if future.done():
                return
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        self.writer.submit(entry, on_done)
        return await future

    def _count(self, case: _ResolvedFeedback) -> None:
        metrics, endpoint = self.service.metrics, case.endpoint
        for node, arm in {(node, arm) for node, arm, _ in case.decisions} or {("", "")}:
            metrics.add_reward(endpoint.namespace, endpoint.name, node, arm, case.reward)
        for node, version in case.ran:
            if node in case.accuracy:
                metrics.add_accuracy(endpoint.namespace, endpoint.name, node, version, case.accuracy[node])
        if case.ran:
            try:
                self._notify_models(case)
            except Exception:  # the feedback counts even if this fails
                log.exception("models could not be notified of feedback")

    def _notify_models(self, case: _ResolvedFeedback) -> None:
        body: bytes | None = None
        for node, version in reversed(case.ran):
            for queue in self._queues_of(case.endpoint, node, version):
                if queue.hello is None or not queue.hello.feedback:
                    continue
                body = body or _encode_frame(case)
                if queue.tell(body):
                    break

    def _queues_of(self, endpoint: Endpoint, node: str, version: str) -> list[Queue]:
        """Returns the queues of the version that ran, if this gateway still serves it."""
        graph, queues = endpoint.graph, endpoint.queues
        if graph is not None:
            callee = next((each.call for each in graph.nodes if each.name == node), None)
            name = self.service.routes.names.get((endpoint.namespace, callee.name)) if callee is not None else None
            found = None if name is None else name.versions.get(version) or name.current
            queues = () if found is None else found.queues
        return [queue for queue in queues if queue.server.version == version]


def parse_feedback(body: bytes) -> FeedbackBody:
    """Raises ValueError if the body is not feedback, Invalid if its values are not allowed."""
    fields = _parse_fields(body)
    for name in fields:
        if name not in FIELDS:
            close = difflib.get_close_matches(name, FIELDS, n=1, cutoff=_CLOSE)
            hint = f"did you mean '{close[0]}'?" if close else f"fields are {', '.join(FIELDS)}"
            raise ValueError(f"{v2.shorten(name)}: is not a field of feedback; {hint}")
    if "id" not in fields:
        raise ValueError("id: is missing")
    id_, user, routing = (_parse_text(fields, name, most) for name, most in _TEXTS.items())
    if not id_:
        raise ValueError("id: expected a string that is not empty")
    reward, truth = fields.get("reward"), fields.get("truth")
    if reward is None and truth is None:
        raise Invalid("reward and truth are both missing; send at least one of them")
    if reward is not None and not _is_reward(reward):
        raise Invalid("reward: expected a number from 0 to 1")
    try:
        finite = _is_finite(truth)
    except RecursionError:
        raise Invalid("truth: is nested too deeply") from None
    if not finite:
        raise Invalid("truth: holds a number that is not finite")
    try:
        decisions = routing_parameter.parse(routing) if routing else None
    except ValueError as fault:
        raise Invalid(f"routing: {fault}") from None
    return FeedbackBody(id_, None if reward is None else float(reward), truth, user, decisions)


_TEXTS = {"id": MAX_ID, "user": v2.MAX_QUOTED, "routing": MAX_ROUTING}
"""Maximum characters of each. An id may be longer when it is encoded as in headers."""


def _parse_fields(body: bytes) -> dict[str, Any]:
    try:
        found = v2.decode_with(msgspec.json.decode, body)
    except ValueError as fault:
        try:
            # Python's own parser accepts NaN and huge numbers, which many clients send: they get a clearer error.
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise fault from None
    if not isinstance(found, dict):
        raise ValueError("the body: expected an object")  # noqa: TRY004 - bad data, not a bad call
    json_keys.require_unique(body, found)
    return found


def _parse_text(fields: dict[str, Any], name: str, most: int) -> str:
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


def _resolve_decisions(
    feedback: FeedbackBody, found: StoredRecord | None, endpoint: Endpoint
) -> list[RecordedDecision]:
    """Returns the recorded decisions, or the client's if there is no record."""
    graph, claimed = endpoint.graph, feedback.decisions
    if found is not None:
        if claimed is not None and (
            fault := routing_parameter.find_contradiction(claimed, found.what.decisions, graph)
        ):
            raise Invalid(f"routing: contradicts the record of this request: {fault}")
        return found.what.decisions
    if claimed is None:
        raise NotFound(
            f"no record of request '{v2.shorten(feedback.id)}': it is unknown, or too old; "
            "send the parameter `routing` of its answer as `routing`"
        )
    if graph is None:
        raise Invalid(f"routing: '{endpoint.name}' is not a graph")
    try:
        routing_parameter.check(claimed, graph)
    except ValueError as fault:
        raise Invalid(f"routing: {fault}") from None
    return claimed


def _check_user(feedback: FeedbackBody, found: StoredRecord | None) -> None:
    if found is not None and feedback.user and feedback.user != found.user:
        whose = "the request named no user" if not found.user else "the request was for another user"
        raise Invalid(f"user: does not match this request; {whose}")


def _answer_accuracy(feedback: FeedbackBody, found: StoredRecord | None) -> float | None:
    """Returns the accuracy if a truth was sent and can be compared; without an answer, a reward is required."""
    if feedback.truth is None:
        return None
    if found is not None and found.outputs:
        try:
            return feedback_accuracy.compute_accuracy(found.outputs, feedback.truth)
        except ValueError as fault:
            raise Invalid(f"truth: {fault}") from None
    if feedback.reward is not None:
        return None
    if found is None:
        raise Invalid("truth: without a record there is no answer to compare it with; send a reward")
    raise Invalid(f"truth: the answer had more than {MAX_OUTPUTS} bytes and was not kept; send a reward")


def _accuracy_by_node(
    feedback: FeedbackBody, found: StoredRecord | None, graph: table_types.CompiledGraph | None, accuracy: float | None
) -> Mapping[str, float]:
    """Returns the accuracy of each node that ran: that of the answer, unless it was merged. Members of an ensemble are
    scored by their own outputs."""
    if accuracy is None or found is None:
        return {}
    merged = set() if graph is None else _nodes_before_merge(graph)
    own = {node: accuracy for node, _ in found.what.ran if node not in merged}
    for node, outputs in record_keeper.split_members(found.outputs or b"")[0].items():
        with contextlib.suppress(ValueError):  # its outputs differ from those of the answer
            own[node] = feedback_accuracy.compute_accuracy(outputs, feedback.truth)
    return own


def _nodes_before_merge(graph: table_types.CompiledGraph) -> set[str]:
    """Returns the nodes whose outputs are later merged with others."""
    behind: set[int] = set()
    for place in reversed(range(len(graph.nodes))):
        node = graph.nodes[place]
        if place in behind or node.merge is not None:
            behind |= set(node.dependencies)
    return {graph.nodes[place].name for place in behind}


def _current_decisions(
    decisions: Sequence[RecordedDecision], graph: table_types.CompiledGraph | None
) -> list[RecordedDecision]:
    """Returns the decisions whose node and child still exist; no bandit can learn from the others."""
    arms = (
        {}
        if graph is None
        else {node.name: routing_parameter.arms_of(graph, node.route) for node in graph.nodes if node.route}
    )
    return [each for each in decisions if each[1] in arms.get(each[0], ())]


def _build_credits(
    decisions: Sequence[RecordedDecision], graph: table_types.CompiledGraph | None, user: str
) -> list[Credit]:
    if graph is None:
        return []
    routes = {node.name: node.route for node in graph.nodes if node.route is not None}
    found = {
        (node, arm): Credit(node, route.policy, routing_parameter.arms_of(graph, route), arm, likely, user)
        for node, arm, likely in decisions
        if (route := routes[node]).kind == "mab" and route.policy is not None
    }
    # A node that ran several times for the request still gets one credit.
    return list(found.values())


def _digest_of(reward: float, truth: Any, claimed: Sequence[RecordedDecision] | None) -> bytes:
    """Digest that tells different feedback apart; 1 and 1.0 are equal. `claimed`: the client's decisions, if there is
    no record."""
    content = [reward, _normalize(truth)] if claimed is None else [reward, _normalize(truth), claimed]
    text = msgspec.json.encode(content, order="sorted")
    return hashlib.blake2b(text, digest_size=16).digest()


def _normalize(value: Any) -> Any:
    if isinstance(value, list):
        return [_normalize(each) for each in value]
    if isinstance(value, dict):
        return {name: _normalize(each) for name, each in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _encode_frame(case: _ResolvedFeedback) -> bytes:
    fields: dict[str, Any] = {"id": case.body.id, "reward": case.reward}
    if case.body.truth is not None:
        fields["truth"] = case.body.truth
    return msgspec.msgpack.encode(fields)
