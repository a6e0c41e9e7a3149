"""Graphs under load while processes are killed: the plane, gateways, models at nodes, and commands at nodes."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import psutil
import pytest
import yaml

from tests.support import load, models, planes
from tests.support.caller import COEFFICIENTS

NODE = "weighing"
PROGRAM = f"""
import json, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Stage(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self):
        self.say({{"ready": True}})

    def do_POST(self):
        [given] = json.loads(self.rfile.read(int(self.headers["content-length"])))["inputs"]
        weighed = sum(value * weight for value, weight in zip(given["data"], {COEFFICIENTS}))
        output = {{"name": "weight", "datatype": "FP64", "shape": [1], "data": [weighed]}}
        self.say({{"model_name": "stage", "outputs": [output]}})

    def say(self, said):
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass

ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Stage).serve_forever()
"""
RATE = 100
"""A command is one process with a thread for each connection; more would measure the machine."""


def graph(name: str, *dag: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "MLGraph", "metadata": {"name": name},
        "spec": {"dag": list(dag), **spec},
    }  # fmt: skip


def calls(name: str, *after: str) -> dict[str, Any]:
    return {"name": name, "dependencies": list(after), "implementation": {"kfservice": f"weigher-{name}"}}


def command(name: str, replicas: int) -> dict[str, Any]:
    """One node, which runs the program."""
    container = {"name": NODE, "command": ["python", "-c"], "args": [PROGRAM, name]}
    return graph(name, {"name": NODE}, custom=[{"spec": {"containers": [container]}, "replicas": replicas}])


GRAPHS = (
    graph("split", {"name": "a", "route": {"split": {}}}, calls("b", "a"), calls("c", "a")),
    graph("bandit", {"name": "a", "route": {"mab": {"egreedy": 0.5}}}, calls("b", "a"), calls("c", "a")),
    graph("mean", calls("b"), calls("c"), {"name": "d", "dependencies": ["b", "c"], "merge": {"ensemble": {}}}),
    command("alone", 1),
    command("pair", 2),
)
"""All of them answer as the model under load does."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    here = tmp_path_factory.mktemp("graphs")
    with planes.running_plane(here / "data") as running:
        models.save_weigher(here / "model.joblib")
        for name in ("weigher-b", "weigher-c"):
            running.cli("deploy", "model.joblib", "--name", name, cwd=here)
        (here / "graphs.yaml").write_text(yaml.safe_dump_all(GRAPHS))
        running.cli("apply", "-f", "graphs.yaml", cwd=here)
        yield running


@pytest.fixture(autouse=True)
def settled(plane: planes.TestPlane) -> None:
    """One test leaves nothing to mend to the next."""
    for each in GRAPHS:
        until_ready(plane, each["metadata"]["name"])


def test_the_plane_is_killed_and_nobody_notices(plane: planes.TestPlane) -> None:
    with loads(plane, "split", "bandit", "mean", "pair") as running:
        for _ in range(3):
            flowing(running)
            pid = plane.pid("plane")
            os.kill(pid, signal.SIGKILL)
            planes.wait_until(lambda old=pid: is_back(plane, old), "the plane is back")  # type: ignore[misc]
        flowing(running)
    all_right(running)


def test_a_gateway_that_starts_without_a_plane_serves_the_last_table(plane: planes.TestPlane) -> None:
    control, gateway = plane.pid("plane"), plane.pid("gateway-0")
    with loads(plane, "split", "bandit", "mean", "pair") as running:
        flowing(running)
        os.kill(control, signal.SIGSTOP)
        try:
            killed_at = time.monotonic()
            os.kill(gateway, signal.SIGKILL)
            flowing(running)
            assert plane.pid("gateway-0") != gateway
        finally:
            os.kill(control, signal.SIGCONT)
        flowing(running)
    for each in running:
        report = each.report
        assert report.wrong == []
        for failure in report.failures:
            assert failure.connected <= killed_at, failure
            assert not failure.what[:1].isdigit(), f"an answer, where only a connection may be lost: {failure}"


def test_a_model_at_a_node_is_killed_and_what_it_owed_is_asked_again(plane: planes.TestPlane) -> None:
    with loads(plane, "split", "bandit", "mean") as running:
        for number in range(4):
            flowing(running)
            victim = runtimes(plane)[number % 2]
            victim.kill()
            planes.wait_until(lambda pid=victim.pid: replaced(runtimes(plane), pid, 2), "it is back")  # type: ignore[misc]
        flowing(running)
    all_right(running)


@pytest.mark.parametrize(("name", "replicas"), [("alone", 1), ("pair", 2)])
def test_a_command_at_a_node_is_killed(plane: planes.TestPlane, name: str, replicas: int) -> None:
    """Who asks it at that moment is told which node failed, and when it is back, all is well."""
    back = 0.0
    with loads(plane, name) as running:
        for _ in range(3):
            flowing(running)
            victim = commands(plane, name)[0]
            victim.kill()
            planes.wait_until(
                lambda pid=victim.pid: replaced(commands(plane, name), pid, replicas),  # type: ignore[misc]
                "it is started again",
            )
            flowing(running)  # again, by whoever is left or came
            until_ready(plane, name)
            planes.wait_until(lambda: infer(plane, name).status_code == 200, "it answers")
            back = time.monotonic()
        flowing(running)
    [report] = [each.report for each in running]
    assert report.wrong == []
    assert report.right + len(report.failures) == report.sent
    for failure in report.failures:
        assert failure.what.startswith(("502 ", "503 ")), failure
        assert f"node '{NODE}'" in failure.what, failure
        assert failure.started < back, "once it is back, nobody fails"


def test_a_command_that_is_killed_over_and_over_starts_when_it_is_left_alone(plane: planes.TestPlane) -> None:
    for _ in range(3):
        victim = planes.wait_until(lambda: commands(plane, "alone"), "it runs")[0]
        victim.kill()
        planes.wait_until(lambda old=victim: old not in commands(plane, "alone"), "it is dead")  # type: ignore[misc]
    told = infer(plane, "alone", **{"mizzen-timeout-ms": "60000"})
    assert told.status_code in (200, 502, 503), told.text
    assert told.status_code == 200 or f"node '{NODE}'" in told.json()["error"]
    until_ready(plane, "alone")
    planes.wait_until(lambda: infer(plane, "alone").status_code == 200, "it answers")


@contextlib.contextmanager
def loads(plane: planes.TestPlane, *names: str) -> Iterator[list[load.Load]]:
    """One on each of these graphs, at the same time."""
    rate = RATE // len(names)
    with contextlib.ExitStack() as stack:
        urls = (f"{plane.inference_url}/v2/models/{name}/infer" for name in names)
        yield [stack.enter_context(load.steady_load(url, rate)) for url in urls]


def flowing(running: list[load.Load]) -> None:
    served = [each.report.right + 25 for each in running]
    planes.wait_until(
        lambda: all(each.report.right > least for each, least in zip(running, served, strict=True)), "answers flow"
    )


def all_right(running: list[load.Load]) -> None:
    for each in running:
        assert each.report.wrong == []
        assert each.report.failures == []
        assert each.report.right == each.report.sent


def infer(plane: planes.TestPlane, name: str, **headers: str) -> httpx2.Response:
    tensor = {"name": "input", "datatype": "FP64", "shape": [1, 4], "data": [1.0, 2.0, 3.0, 4.0]}
    url = f"{plane.inference_url}/v2/models/{name}/infer"
    return httpx2.post(url, json={"inputs": [tensor]}, headers=headers)


def is_back(plane: planes.TestPlane, old: int) -> bool:
    pids = plane.pids("plane")
    if len(pids) != 1 or pids[0] == old:
        return False
    with contextlib.suppress(httpx2.HTTPError):
        return httpx2.get(f"{plane.control_url}/readyz").status_code == 200
    return False


def until_ready(plane: planes.TestPlane, name: str) -> None:
    def ready() -> bool:
        with contextlib.suppress(httpx2.HTTPError):
            status = condition(plane, name)
            return status == "True" and infer(plane, name).status_code == 200
        return False

    planes.wait_until(ready, f"{name} is ready")


def condition(plane: planes.TestPlane, name: str) -> str:
    url = f"{plane.control_url}/apis/mizzen.dev/v1alpha1/namespaces/default/mlgraphs/{name}"
    found = httpx2.get(url, headers={"authorization": f"Bearer {plane.token()}"}).json()
    conditions = {each["type"]: each["status"] for each in found.get("status", {}).get("conditions", ())}
    return str(conditions.get("Ready", ""))


def runtimes(plane: planes.TestPlane) -> list[psutil.Process]:
    return [each for each in supervised(plane) if "mizzen.runtime" in " ".join(each.cmdline())]


def commands(plane: planes.TestPlane, name: str) -> list[psutil.Process]:
    """Those that run the program for this graph."""
    return [each for each in supervised(plane) if each.cmdline()[-2:] == [PROGRAM, name]]


def supervised(plane: planes.TestPlane) -> list[psutil.Process]:
    """All but the plane and its gateways."""
    found = []
    for pid in plane.pids("runtime"):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            if process.cmdline():  # none: it is ending
                found.append(process)
    return found


def replaced(now: list[psutil.Process], old: int, count: int) -> bool:
    return len(now) == count and old not in {each.pid for each in now}
