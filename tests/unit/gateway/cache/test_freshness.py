"""No answer is ever stale, or another's: whatever versions, aliases, files and processes do meanwhile.

The world is real but for sockets and time. Each answer says which process gave it, with which files, to which input;
and each request knows who answered for its URL at any time since it was asked.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mizzen.gateway.queueing.call import EXPIRED, FAILED, LOST, OK, UNAVAILABLE
from mizzen.graph.table_types import Plan, Route, Server, Table
from tests.support.examples import examples
from tests.unit.gateway.cache.world import Asked, Connection, Process, World

SIZES = (0, 700, 1 << 20)
URLS = tuple(
    f"/v2/models/{place}/infer".encode()
    for place in ("m", "m/versions/1", "m/versions/2", "m/versions/prod", "a", "b", "second")
)
Key = tuple[str, str, str]


@dataclass
class Serving:
    """What is wanted of one server."""

    name: str
    version: int = 1
    cache: int = SIZES[-1]
    processes: list[Process] = field(default_factory=list)

    @property
    def files(self) -> str:
        return f"v{self.version}"

    def server(self) -> Server:
        return Server(
            id=f"default/{self.name}", model="m", version=str(self.version), files=self.files, batch_size=3,
            addresses=tuple(process.address for process in self.processes), cache_bytes=self.cache,
        )  # fmt: skip


class Life(RuleBasedStateMachine):
    @initialize(size=st.sampled_from(SIZES))
    def begin(self, size: int) -> None:
        self.world = World()
        self.world.enforced = self.enforced
        self.numbers = itertools.count(1)
        self.servers = {name: Serving(name, version, size) for name, version in (("a", 1), ("b", 2))}
        self.current, self.prod = 1, 2
        self.calls: list[Asked] = []
        self.ids: dict[Asked, str] = {}
        self.asked: list[tuple[bytes, int]] = []
        self.tables: dict[int, Table] = {}
        self.answering: dict[Key, set[str]] = {}
        """The addresses behind each queue: of the Table in force, and of those that came since."""
        self.tokens: dict[tuple[str, str], str] = {}
        """Who greeted last, by address and files."""
        for serving in self.servers.values():
            serving.processes = [self.process(serving.files)]
        self.publish()
        self.world.loop.pass_time(0.1)

    def process(self, files: str) -> Process:
        return Process(self.world.loop, f"p{next(self.numbers)}", files, self.greeted)

    # What happens

    @rule(
        url=st.sampled_from(URLS), value=st.integers(-1, 4), timeout=st.sampled_from([30, 1000, 0]), named=st.booleans()
    )
    def ask(self, url: bytes, value: int, timeout: int, *, named: bool) -> None:
        call = Asked(url, value)
        self.allow(call)
        self.asked.append((url, value))
        id_ = f"call {next(self.numbers)}" if named else ""
        self.ids[call] = id_
        self.calls.append(call)
        if not self.world.ask(call, id_, timeout):
            self.calls.pop()

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        self.ask(*data.draw(st.sampled_from(self.asked[-3:])), 0, named=False)

    @rule(data=st.data(), times=st.integers(1, 3))
    def answer(self, data: st.DataObject, times: int) -> None:
        owing = [each for each in self.world.loop.processes.values() if any(one.owed for one in each.connections)]
        for _ in range(times if owing else 0):
            data.draw(st.sampled_from(owing)).answer()

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        waiting = [call for call in self.calls if not call.ends and call.pending]
        if waiting:
            data.draw(st.sampled_from(waiting)).cancel(self.world.loop.time())

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.1, 1.5, 5.0]))
    def wait(self, seconds: float) -> None:
        self.world.loop.pass_time(seconds)

    @rule(data=st.data())
    def lose_or_restart(self, data: st.DataObject) -> None:
        process = data.draw(st.sampled_from(list(self.world.loop.processes.values())))
        if process.up:
            process.lose()
        else:
            process.begin_again()

    @rule(data=st.data())
    def drain(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(list(self.world.loop.processes.values()))).drain()

    # What people change

    @rule(current=st.integers(1, 4), prod=st.integers(1, 4))
    def promote(self, current: int, prod: int) -> None:
        self.current, self.prod = current, prod
        self.publish()

    @rule(name=st.sampled_from("ab"), version=st.integers(1, 4))
    def switch(self, name: str, version: int) -> None:
        """To another version, with processes of its own; also to one that the other server has, or that was before."""
        serving = self.servers[name]
        serving.version = version
        serving.processes = [self.process(serving.files)]
        self.publish()

    @rule(name=st.sampled_from("ab"))
    def reload(self, name: str) -> None:
        """The same processes with other files."""
        serving = self.servers[name]
        serving.version = next(self.numbers) + 100
        for process in serving.processes:
            process.files = serving.files
        self.publish()

    @rule(name=st.sampled_from("ab"), replicas=st.integers(0, 2))
    def replace(self, name: str, replicas: int) -> None:
        """Other processes of the same version: another environment."""
        serving = self.servers[name]
        serving.processes = [self.process(serving.files) for _ in range(replicas)]
        self.publish()

    @rule(name=st.sampled_from("ab"))
    def scale(self, name: str) -> None:
        serving = self.servers[name]
        if len(serving.processes) > 1:
            serving.processes = serving.processes[:1]
        else:
            serving.processes = [*serving.processes, self.process(serving.files)]
        self.publish()

    @rule(name=st.sampled_from("ab"), size=st.sampled_from(SIZES))
    def resize(self, name: str, size: int) -> None:
        self.servers[name].cache = size
        self.publish()

    def publish(self) -> None:
        servers = [serving.server() for serving in self.servers.values()]
        versions: dict[str, tuple[str, ...]] = {}
        for server in servers:
            if server.addresses:
                versions[server.version] = (*versions.get(server.version, ()), server.id)
        plans = {version: Plan(servers=ids) for version, ids in versions.items()}
        current = Plan(servers=versions.get(str(self.current), ()))
        routes = [
            Route(namespace="default", name=name, version=str(self.current), plan=current, versions=plans,
                  aliases={"prod": str(self.prod)})
            for name in ("m", "second")
        ]  # fmt: skip
        for server in servers:
            own = Plan(servers=(server.id,) if server.addresses else ())
            routes.append(Route(namespace="default", name=server.id[-1], version=server.version, plan=own))
        table = Table(serial=next(self.numbers), servers=tuple(servers), routes=tuple(routes))
        self.tables[table.serial] = table
        for server in servers:
            self.answering.setdefault(_key(server), set()).update(server.addresses)
        self.note()
        self.world.take(table)

    # Who answers for what

    def enforced(self) -> None:
        self.answering = {_key(server): set(server.addresses) for server in self.table.servers}
        self.note()

    def greeted(self, connection: Connection) -> None:
        self.tokens[connection.process.address, connection.files] = connection.token
        self.note()

    @property
    def table(self) -> Table:
        return self.tables[self.world.in_force]

    def versions(self, url: bytes) -> set[Key]:
        """That answer for it now."""
        if not self.world.in_force:
            return set()
        _, _, _, name, *more, _ = url.decode().split("/")
        route = next(route for route in self.table.routes if route.name == name)
        version = route.version if not more else route.aliases.get(more[1], more[1])
        plan = route.plan if version == route.version else route.versions.get(version, Plan(servers=()))
        return {_key(server) for server in self.table.servers if server.id in plan.servers}

    def note(self) -> None:
        for call in self.calls:
            if not call.ends:
                self.allow(call)

    def allow(self, call: Asked) -> None:
        """What waits for a version goes on waiting for it when its name has moved on."""
        call.versions |= self.versions(call.url)
        for key in call.versions:
            tokens = (self.tokens.get((address, key[2])) for address in self.answering.get(key, ()))
            call.allowed |= {token for token in tokens if token is not None}

    # What must be so

    @invariant()
    def answers_are_true(self) -> None:
        now = self.world.loop.time() if hasattr(self, "world") else 0.0
        for call in getattr(self, "calls", ()):
            assert call.ends <= 1
            if not call.ends:
                assert not call.pending or now <= call.deadline + 0.05, "answered in time, one way or another"
            elif call.code == OK:
                self.check(call)
            elif call.code == FAILED:
                assert call.value < 0
                assert json.loads(call.body) == {"error": str(call.value)}
            else:
                assert call.code in (UNAVAILABLE, EXPIRED, LOST), call.body
        self.calls = [call for call in getattr(self, "calls", ()) if not call.ends and call.pending]

    def check(self, call: Asked) -> None:
        said = json.loads(call.body)
        token, _, value = said["outputs"][0]["data"][0].rpartition(" ")
        assert said["id"] == (self.ids[call] or call.id.decode())
        assert value == str(call.value), "another one's answer"
        assert token in call.allowed, f"{token} was none of {call.allowed}: {call.kind!r}"
        assert said["model_version"] == token.split()[0][1:]
        assert said["model_name"] == call.url.decode().split("/")[3]

    @invariant()
    def caches_have_their_size(self) -> None:
        for queue in self.world.fleet.queues.values() if hasattr(self, "world") else ():
            if queue.cache is not None:
                assert queue.cache.cached_bytes <= queue.server.cache_bytes

    @precondition(lambda self: hasattr(self, "world"))
    @rule()
    def finish(self) -> None:
        """Everybody answers what they owe."""
        for process in self.world.loop.processes.values():
            while process.answer():
                pass

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for _ in range(70):
            self.finish()
            self.world.loop.pass_time(1.0)
        self.answers_are_true()
        assert self.calls == []
        assert all(queue.busy == 0 for queue in self.world.fleet.queues.values())
        assert all(endpoint.counters.in_flight == 0 for endpoint in self.world.service.routes.hot.values())
        self.world.close()


def _key(server: Server) -> Key:
    return server.id, server.version, server.files


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=examples(200), stateful_step_count=50, deadline=None)


def test_what_was_asked_before_processes_changed_is_neither_kept_nor_joined() -> None:
    world = World()
    processes = [Process(world.loop, path, "v1", lambda connection: None) for path in ("p1", "p2")]
    serving = Serving("m", processes=processes)
    plan = Plan(servers=("default/m",))
    route = Route(namespace="default", name="m", version="1", plan=plan)
    world.take(Table(serial=1, servers=(serving.server(),), routes=(route,)))
    world.loop.pass_time(0.1)

    def ask() -> Asked:
        call = Asked(b"/v2/models/m/infer", 1)
        world.ask(call, "id", 20_000)
        world.loop.pass_time(0.1)
        return call

    def token(call: Asked) -> str:
        return str(json.loads(call.body)["outputs"][0]["data"][0])

    first = ask()
    [old] = [process for process in processes if process.sent]
    [new] = [process for process in processes if not process.sent]
    old.drain()
    second = ask()
    assert len(new.sent) == 1, "not joined"
    old.answer()
    third = ask()
    assert (len(new.sent), third.ends) == (1, 0), "joined the second, and the first was not kept"
    new.answer()
    assert token(first) == f"{old.token} 1"
    assert {token(second), token(third), token(ask())} == {f"{new.token} 1"}
    world.close()


def test_a_server_that_was_stopped_and_started_answers_nothing_from_before() -> None:
    life = Life()
    life.begin(size=SIZES[-1])
    life.promote(current=2, prod=1)
    question = {"url": b"/v2/models/m/infer", "value": 0, "timeout": 30, "named": False}
    life.ask(**question)
    life.finish()
    life.replace(name="b", replicas=0)
    life.replace(name="b", replicas=1)
    life.ask(**question)
    life.answers_are_true()
    life.teardown()
