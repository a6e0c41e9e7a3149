"""A real App before records and a state.db that are real files: what feedback is given to in tests."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from random import Random
from typing import Any

from mizzen.access.policy import Target
from mizzen.gateway.access.authorizer import Authorizer
from mizzen.gateway.access.refusal_log import RefusalLog
from mizzen.gateway.context import GatewayContext
from mizzen.gateway.feedback import record_keeper
from mizzen.gateway.feedback.routes import FeedbackApi
from mizzen.gateway.http.asgi_app import App
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.inference.protocols import V2
from mizzen.gateway.request.body_budget import BodyBudget
from mizzen.gateway.request.cors import Cors
from mizzen.gateway.route_table import NamedRoute, Routes
from mizzen.gateway.telemetry.access_log import AccessLog
from mizzen.gateway.telemetry.counters import Counters, Metrics
from mizzen.gateway.telemetry.metrics import render
from mizzen.graph import table_types
from mizzen.protocol.gateway_files import counts
from mizzen.selection import state_db
from mizzen.selection.feedback_writer import FeedbackWriter
from mizzen.selection.records.record import encode_record
from mizzen.selection.records.writer import RecordLog

UID = "11111111-2222-3333-4444-555555555555"
DAY = 86400.0
EGREEDY, EXP3 = table_types.Policy(name="egreedy", epsilon=0.1), table_types.Policy(name="exp3")
LABEL = b'[{"name":"predict","datatype":"INT64","shape":[1],"data":[1]}]'
SCORE = b'[{"name":"predict","datatype":"FP64","shape":[1],"data":[0.75]}]'


def graph(
    policy: table_types.Policy | None = EGREEDY, arms: tuple[str, ...] = ("b", "c"), **more: Any
) -> table_types.CompiledGraph:
    """`a` routes to its arms; `a` and they are called by their names."""
    places = tuple(range(1, len(arms) + 1))
    route = table_types.Routing(kind="mab" if policy else "split", children=places, policy=policy)
    nodes = [table_types.Node(name="a", children=places, route=route, call=table_types.Callee(name="first"))]
    nodes += [
        table_types.Node(name=arm, dependencies=(0,), call=table_types.Callee(name=f"model-{arm}")) for arm in arms
    ]
    return table_types.CompiledGraph(uid=UID, generation=3, nodes=tuple(nodes), **more)


class Bound:
    """As much of a graph as feedback looks at."""

    ready = callable = True
    reason, hello = "", None

    def __init__(self, of: table_types.CompiledGraph) -> None:
        self.graph = of

    def request_replica(self, now: float) -> None:
        raise AssertionError

    def may_hold(self, now: float) -> bool:
        raise AssertionError


class World:
    """The name `g`, which keeps records, and `plain`, which does not."""

    def __init__(self, folder: Path, of: table_types.CompiledGraph | None) -> None:
        self.folder = folder
        self.now = 1_700_000_000.0
        self.kept = table_types.RecordLimits(uid=UID, max_bytes=1 << 20, max_seconds=DAY)
        self.log = RecordLog(folder / "records", 0, self.kept, wall=lambda: self.now)
        self.metrics = Metrics()
        self.service = GatewayContext(
            max_body_bytes=1 << 20, intake=BodyBudget(1 << 20), metrics=self.metrics, clock=time.monotonic,
            wall=lambda: self.now, new_id=lambda: b"an-id",
            permits=Authorizer(None, anonymous=True, wall=time.time),
            refusals=RefusalLog(folder / "refusals", "g", wall=time.time, call_later=lambda *_: None),
            cors=Cors(),
            access_log=AccessLog(folder / "log", "g", "off", wall=time.time, call_later=lambda *_: None),
        )  # fmt: skip
        self.serve(of)

    def serve(self, of: table_types.CompiledGraph | None) -> None:
        g = self._endpoint("g", None if of is None else Bound(of), self.kept)
        plain = self._endpoint("plain", None, None)
        names = {("default", each.name): NamedRoute(each, {"1": each}) for each in (g, plain)}
        self.service.replace(routes=Routes(names=names))

    def _endpoint(self, name: str, bound: Bound | None, kept: table_types.RecordLimits | None) -> Endpoint:
        target = Target("default", "Model", name, models=frozenset({name}))
        return Endpoint(
            "default", name, "1", None, target, (), lambda call: None, 10.0, b"", Counters(), bytes, V2,
            bound=bound, kept=kept,
        )  # fmt: skip

    def answered(
        self, *, arm: str = "b", p: float = 0.9, user: str = "", outputs: bytes = LABEL, chosen: str = "",
        ran: tuple[tuple[str, str], ...] = (("a", "1"), ("b", "7")),
    ) -> str:  # fmt: skip
        """The id of a request."""
        id_ = self.log.reserve()
        decisions = [("a", arm, p)] if arm else []
        self.log.write(id_, encode_record(3, decisions, ran), user.encode(), record_keeper.JSON + outputs)
        if chosen:
            self.log.add_client_id(id_, chosen.encode())
        return id_.decode()

    def post(self, body: Any = None, *, path: str = "/v2/models/g/feedback", method: str = "POST") -> tuple[int, Any]:
        """Code and body of the answer."""
        [answer] = self.posts(body, path=path, method=method)
        return answer

    def posts(self, *bodies: Any, path: str = "/v2/models/g/feedback", method: str = "POST") -> list[tuple[int, Any]]:
        """All at once."""
        texts = [body if isinstance(body, bytes) else json.dumps(body).encode() for body in bodies]

        async def run() -> list[tuple[int, Any]]:
            desk = FeedbackWriter(
                self.folder / "state.db",
                self.folder / "word",
                Random(1),
                post=asyncio.get_running_loop().call_soon_threadsafe,
            )
            app = App(self.service, list, feedback=FeedbackApi(self.folder / "records", desk, self.service))
            try:
                return await asyncio.gather(*(asked(app, method, path, text) for text in texts))
            finally:
                desk.close()
                await asyncio.sleep(0)

        return asyncio.run(run())

    def state(self, user: str = "") -> dict[str, tuple[int, float]]:
        """Count and sum of each arm."""
        connection = state_db.open_db(self.folder / "state.db")
        try:
            found = state_db.read_state(connection, UID, "a", user)
            return {} if found is None else {name: (arm.count, arm.total) for name, arm in found.arms.items()}
        finally:
            connection.close()

    def qualities(self) -> list[tuple[Any, ...]]:
        connection = state_db.open_db(self.folder / "state.db")
        try:
            return [tuple(each) for each in state_db.list_qualities(connection, UID)]
        finally:
            connection.close()

    def figures(self) -> dict[str, float]:
        """All that is scraped of feedback, by name and labels."""
        told = counts.Counts(
            gateway="g", pid=1, start=0.0, at=0.0, cpu_seconds=0.0, resident_bytes=0, requests=[], served=[],
            refused={}, feedback=self.metrics.reward_counts(), judged=self.metrics.accuracy_counts(),
        )  # fmt: skip
        lines = render([told], lambda *_: True).decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if line.startswith("mizzen_feedback"))
        return {
            name.replace('gateway="g",namespace="default",model="g",', ""): float(value) for name, _, value in pairs
        }


async def asked(app: App, method: str, path: str, body: bytes) -> tuple[int, Any]:
    sent: list[Any] = []
    parts = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        for part in parts:
            return part
        return await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        sent.append(message)

    scope: Any = {"type": "http", "method": method, "raw_path": path.encode(), "headers": []}
    await app(scope, receive, send)
    start, end = sent
    return start["status"], json.loads(end["body"])
