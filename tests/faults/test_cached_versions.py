"""A real plane with caches that are always too small, under load: while versions are reloaded in place, and while the
current version and an alias of a model move there and back. Every answer is that of its own input, by a version that
was in force between the request and its answer.
"""

from __future__ import annotations

import json
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import httpx2

from tests.support import grpcs, planes

MODEL = """
class Model:
    inputs = [{"name": "x", "datatype": "FP64", "shape": [-1]}]

    def load(self, path):
        self.value = float(open(path + "/value").read())

    def reload(self, path):
        self.load(path)

    def predict(self, inputs):
        return self.value * 1000 + inputs["x"]
"""
SERVERS = "/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels"
VALUES, CACHE, GATEWAYS = 40, 6000, 2
"""Of the values about a third fits into the cache."""
MOVES = 8
SEED = int(os.environ.get("TEST_SEED", "0"))

Said = tuple[str, float, str]
"""What an answer says: its version, the value, and what REST says of the cache."""
Connect = Callable[[], AbstractContextManager[Callable[[float], Said]]]


@dataclass(frozen=True, slots=True)
class Answer:
    way: str
    asked: float
    answered: float
    value: float
    """That was asked for."""
    said: Said


@dataclass(slots=True)
class Seen:
    """By those who ask for one name."""

    spans: list[tuple[str, float, float]] = field(default_factory=lambda: [("1", 0.0, float("inf"))])
    """Which version it stood for, from when to when; while it moves it may stand for both."""
    answers: list[Answer] = field(default_factory=list)
    failures: list[Any] = field(default_factory=list)

    def flow(self, more: int) -> None:
        """In each way that is asked."""
        before = Counter(each.way for each in list(self.answers))

        def have_come() -> bool:
            now = Counter(each.way for each in list(self.answers))
            return bool(now) and all(count >= before[way] + more for way, count in now.items())

        planes.wait_until(lambda: self.failures or have_come(), "answers flow")

    def move(self, version: str, move: Callable[[], None]) -> None:
        """`move` returns when all gateways have done it."""
        began = time.monotonic()
        move()
        was, since, _ = self.spans[-1]
        self.spans[-1:] = [(was, since, time.monotonic()), (version, began, float("inf"))]

    def check(self) -> None:
        assert self.failures == []
        for each in self.answers:
            version, value, _ = each.said
            assert value == int(version) * 1000 + each.value, f"for another input, or by another version: {each}"
            assert any(
                version == its and each.asked <= end and each.answered >= began for its, began, end in self.spans
            ), f"of a version that was not in force: {each}, {self.spans}"

    def marks(self, way: str) -> Counter[str]:
        return Counter(each.said[2] for each in self.answers if each.way == way)


def test_no_answer_is_of_a_version_that_was_not_in_force(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    with versions_of(tmp_path) as plane, controlling(plane) as control:

        def serve(version: str) -> None:
            keep_answers(control, "m-1", targetVersion=version)
            planes.wait_until(lambda: is_taken(plane.data_dir, serves(version)), f"all gateways serve {version}")

        serve("1")
        seen = Seen()
        with asking(seen, "rest", lambda: over_rest(f"{plane.inference_url}/v2/models/m-1/infer"), callers=4):
            for version in rng.choices("123", k=MOVES):
                seen.flow(60)
                seen.move(version, partial(serve, version))
    seen.check()
    assert {"hit", ""} <= seen.marks("rest").keys()


def test_no_answer_is_of_a_version_that_was_promoted_or_aliased_away(tmp_path: Path) -> None:
    """The caches of all three stay as they are meanwhile: it is the names that move."""
    rng = random.Random(SEED)
    with versions_of(tmp_path) as plane, controlling(plane) as control:
        for version in "123":
            if version != "1":
                plane.cli("serve", "m", version)
            keep_answers(control, f"m-{version}")
        moves = {"current": ("promote", "m"), "prod": ("alias", "set", "m", "prod")}

        def move(name: str, version: str) -> None:
            plane.cli(*moves[name], version)
            planes.wait_until(lambda: is_taken(plane.data_dir, stands(name, version)), f"{name} is {version}")

        move("prod", "1")
        move("current", "1")
        planes.wait_until(lambda: is_taken(plane.data_dir, all_are_kept), "all gateways have three caches")
        url, address = f"{plane.inference_url}/v2/models/m", plane.grpc_address
        seen = {"current": Seen(), "prod": Seen()}
        with (
            asking(seen["current"], "rest", lambda: over_rest(f"{url}/infer")),
            asking(seen["current"], "grpc", lambda: over_grpc(address, "")),
            asking(seen["prod"], "rest", lambda: over_rest(f"{url}/versions/prod/infer")),
            asking(seen["prod"], "grpc", lambda: over_grpc(address, "prod")),
        ):
            for _ in range(MOVES):
                name = rng.choice(list(moves))
                to = rng.choice([each for each in "123" if each != seen[name].spans[-1][0]])
                for each in seen.values():
                    each.flow(30)
                seen[name].move(to, partial(move, name, to))
            for each in seen.values():
                each.flow(30)
        metrics = httpx2.get(f"{plane.inference_url}/metrics").text
    for each in seen.values():
        each.check()
        assert {"hit", ""} <= each.marks("rest").keys()
    hits = sum(int(count) for count in re.findall(r'mizzen_cache_lookups_total\{.*result="hit".*\} (\d+)', metrics))
    assert hits > sum(each.marks("rest")["hit"] for each in seen.values()), "gRPC is answered from the cache, too"


@contextmanager
def versions_of(folder: Path) -> Iterator[planes.TestPlane]:
    """A plane with the versions 1, 2 and 3 of the model m, of which the first is served."""
    with planes.running_plane(folder / "data", "--gateways", str(GATEWAYS)) as plane:
        for value in "123":
            (folder / value).mkdir()
            (folder / value / "model.py").write_text(MODEL)
            (folder / value / "value").write_text(value)
            brought = (str(folder / value), "--entrypoint", "model:Model")
            plane.cli(*(("deploy", "--name", "m") if value == "1" else ("version", "add", "m")), *brought, cwd=folder)
        yield plane


def controlling(plane: planes.TestPlane) -> httpx2.Client:
    headers = {"authorization": f"Bearer {plane.token()}"}
    return httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60)


def keep_answers(control: httpx2.Client, name: str, **spec: str) -> None:
    server = control.get(f"{SERVERS}/{name}").json()
    server["spec"] |= {"cache": {"maxBytes": CACHE}, **spec}
    assert control.put(f"{SERVERS}/{name}", json=server).status_code == 200


def is_taken(data_dir: Path, says: Callable[[Any], bool]) -> bool:
    """Has every gateway taken a Table that says so?"""
    table = json.loads((data_dir / "table.json").read_bytes())
    taken = [json.loads(note.read_bytes())["serial"] for note in (data_dir / "run" / "tables").glob("*.json")]
    return says(table) and len(taken) == GATEWAYS and min(taken) >= table["serial"]


def serves(version: str) -> Callable[[Any], bool]:
    return lambda table: [server["version"] for server in table["servers"]] == [version]


def stands(name: str, version: str) -> Callable[[Any], bool]:
    def says(table: Any) -> bool:
        [route] = [route for route in table["routes"] if route["name"] == "m"]
        return bool(version == (route["version"] if name == "current" else route["aliases"].get(name)))

    return says


def all_are_kept(table: Any) -> bool:
    return [server.get("cache_bytes") for server in table["servers"]] == [CACHE] * 3


@contextmanager
def asking(seen: Seen, way: str, connect: Connect, callers: int = 2) -> Iterator[None]:
    end = threading.Event()

    def ask(number: int) -> None:
        rng = random.Random(SEED * 100 + number)
        with connect() as call:
            while not end.is_set():
                value = float(rng.randrange(VALUES) if rng.random() < 0.5 else rng.randrange(4))
                asked = time.monotonic()
                try:
                    said = call(value)
                except (httpx2.HTTPError, grpc.RpcError) as error:
                    seen.failures.append(error)
                    return
                seen.answers.append(Answer(way, asked, time.monotonic(), value, said))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        end.set()
        for thread in threads:
            thread.join()


@contextmanager
def over_rest(url: str) -> Iterator[Callable[[float], Said]]:
    with httpx2.Client(timeout=60) as client:

        def call(value: float) -> Said:
            body = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [1], "data": [value]}]}
            answer = client.post(url, json=body).raise_for_status()
            said = answer.json()
            [given] = said["outputs"][0]["data"]
            return said["model_version"], given, answer.headers.get("mizzen-cache", "")

        yield call


@contextmanager
def over_grpc(address: str, version: str) -> Iterator[Callable[[float], Said]]:
    with grpcs.calling(address) as caller:

        def call(value: float) -> Said:
            answer = caller.infer(grpcs.request_of("m", [value], "x", model_version=version), timeout=60)
            [[given]] = grpcs.outputs_of(answer).values()
            return answer.model_version, float(given), ""

        yield call
