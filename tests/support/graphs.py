"""Graphs of a real plane: made from a few words, asked over HTTP; and services of others that do what a test says."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
import psutil

from tests.support import planes

API = "/apis/mizzen.dev/v1alpha1/namespaces/default"
LIMIT = 60.0
"""Seconds, so that an answer that never comes fails its test."""


UNVERIFIED = ssl.create_default_context()
"""Made once: it is what takes longest about a client."""


class Answer(NamedTuple):
    code: int
    said: Any
    headers: httpx2.Headers

    @property
    def outputs(self) -> dict[str, Any]:
        return {output["name"]: output["data"] for output in self.said["outputs"]}

    @property
    def parameters(self) -> dict[str, Any]:
        found: dict[str, Any] = self.said.get("parameters", {})
        return found

    @property
    def nodes(self) -> str:
        return str(self.parameters["nodes"])

    @property
    def failure(self) -> tuple[int, str]:
        return self.code, self.said["error"]


class Graphs:
    """Those of one plane."""

    def __init__(self, plane: planes.TestPlane) -> None:
        self._come_to(plane)

    def _come_to(self, plane: planes.TestPlane) -> None:
        headers = {"authorization": f"Bearer {plane.token()}"}
        self.plane = plane
        self.control = httpx2.Client(base_url=plane.control_url, headers=headers, timeout=LIMIT, verify=False)
        self.asking = httpx2.Client(base_url=plane.inference_url, timeout=LIMIT, verify=False)
        """Its connections are kept."""

    def close(self) -> None:
        self.control.close()
        self.asking.close()

    def restart(self, *flags: str) -> None:
        """All of the plane; its addresses are others then."""
        self.close()
        self.plane.cli("down")
        self._come_to(planes.started(self.plane.data_dir, *flags))

    # Making them

    def apply(self, name: str, *nodes: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Fields of the spec in `more`, but for `labels` and `annotations`."""
        meta: dict[str, Any] = {
            "name": name,
            **{field: more.pop(field) for field in ("labels", "annotations") if field in more},
        }
        body = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "MLGraph", "metadata": meta}
        answer = self.control.patch(
            f"{API}/mlgraphs/{name}",
            params={"fieldManager": "tests", "force": "true"},
            headers={"content-type": "application/apply-patch+yaml"},
            content=json.dumps({**body, "spec": {"dag": list(nodes), **more}}),
        )
        assert answer.status_code in (200, 201), answer.text
        found: dict[str, Any] = answer.json()
        return found

    def serve(self, name: str, *nodes: Mapping[str, Any], **more: Any) -> None:
        """As `apply`; it answers by this spec when this returns."""
        self.wait(name, self.apply(name, *nodes, **more)["metadata"]["generation"])

    def wait(self, name: str, generation: int = 1) -> None:
        planes.wait_until(lambda: self.answers_by(name) == generation, f"graph {name} is ready")

    def get(self, name: str, kind: str = "mlgraphs") -> dict[str, Any]:
        answer = self.control.get(f"{API}/{kind}/{name}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def conditions(self, name: str) -> dict[str, tuple[str, str, str]]:
        found = self.get(name).get("status", {}).get("conditions", ())
        return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found}

    def answers_by(self, name: str) -> int:
        """The generation that answers with all its nodes, as every gateway knows; 0: none does."""
        conditions = self.get(name).get("status", {}).get("conditions", ())
        ready = (each for each in conditions if each["type"] == "Ready" and each["status"] == "True")
        return next((int(each["observedGeneration"]) for each in ready), 0)

    def workloads(self, name: str) -> dict[str, Any]:
        """What runs for its containers, by name."""
        items = self.control.get(f"{API}/workloads").json()["items"]
        return {item["metadata"]["name"]: item for item in items if item["metadata"]["name"].startswith(f"{name}.")}

    def pids(self, name: str) -> set[int]:
        """Of all that runs for its containers."""
        replicas = [each for one in self.workloads(name).values() for each in one.get("status", {}).get("replicas", ())]
        return {each["pid"] for each in replicas if each.get("pid")}

    def delete(self, name: str) -> None:
        assert self.control.delete(f"{API}/mlgraphs/{name}").status_code == 200

    # Asking them

    def ask(self, name: str, value: float = 1.0, *, headers: Mapping[str, str] | None = None, **more: Any) -> Answer:
        """In V2, with a tensor `x` of two rows."""
        body = {**request(value), **more}
        return told(self.asking.post(f"/v2/models/{name}/infer", json=body, headers=dict(headers or {})))

    def ask_known(self, name: str) -> Answer:
        """Once gateways know of a graph, which may be before it is ready."""

        found: list[Answer] = []

        def known() -> bool:
            found.append(self.ask(name))
            return found[-1].code != 404

        planes.wait_until(known, f"gateways know {name}")
        return found[-1]

    def ask_apart(self, name: str, **headers: str) -> Answer:
        """On a connection of its own, which any gateway may take."""
        with httpx2.Client(base_url=self.plane.inference_url, timeout=LIMIT, verify=UNVERIFIED) as client:
            heads = {key.replace("_", "-"): value for key, value in headers.items()}
            return told(client.post(f"/v2/models/{name}/infer", json=request(), headers=heads))

    def ask_v1(self, name: str, *rows: Any) -> Answer:
        return told(self.asking.post(f"/v1/models/{name}:predict", json={"instances": list(rows)}))

    def reward(self, name: str, id_: str, **said: Any) -> Answer:
        return told(self.asking.post(f"/v2/models/{name}/feedback", json={"id": id_, **said}))

    def metrics(self, name: str, **labels: str) -> float:
        """The sum of what all gateways count under this name, with these labels."""
        found = 0.0
        for line in self.asking.get("/metrics").text.splitlines():
            if line.startswith(f"{name}{{") and all(f'{key}="{value}"' in line for key, value in labels.items()):
                found += float(line.rpartition(" ")[2])
        return found


@contextlib.contextmanager
def graphs_of(plane: planes.TestPlane) -> Iterator[Graphs]:
    graphs = Graphs(plane)
    try:
        yield graphs
    finally:
        graphs.close()


def request(value: float = 1.0) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "datatype": "FP64", "shape": [2], "data": [value, value + 1]}]}


def told(answer: httpx2.Response) -> Answer:
    return Answer(answer.status_code, answer.json(), answer.headers)


def node(name: str, model: str = "", *dependencies: str, **more: Any) -> dict[str, Any]:
    """`model`: what it calls by name; none: it passes on what it gets."""
    found: dict[str, Any] = {"name": name, **more}
    if model:
        found["implementation"] = {"kfservice": model}
    if dependencies:
        found["dependencies"] = list(dependencies)
    return found


def deploy(plane: planes.TestPlane, folder: Path, code: str, names: Iterable[str]) -> None:
    """Each of these functions of the code as a model of its name, with `-` for `_`; all at once."""
    (folder / "functions.py").write_text(code)

    def one(name: str) -> None:
        plane.cli("deploy", f"functions:{name.replace('-', '_')}", "--name", name, cwd=folder)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, names))


def living(pids: Iterable[int]) -> set[int]:
    found = set()
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.add(pid)
    return found


# Services of others


class Asked(NamedTuple):
    """A request that a service got."""

    path: str
    headers: Mapping[str, str]
    body: Any
    connection: socket.socket

    @property
    def tensor(self) -> list[float]:
        found: list[float] = self.body["inputs"][0]["data"]
        return found

    def left(self) -> bool:
        """Blocks until whoever asked has closed the connection."""
        self.connection.settimeout(LIMIT)
        with contextlib.suppress(ConnectionResetError):
            return not self.connection.recv(1, socket.MSG_PEEK)
        return True


class Reply(NamedTuple):
    body: Any = None
    """JSON, or bytes as they are."""
    code: int = 200
    headers: Mapping[str, str] = {}


@dataclass
class Service:
    """Answers GETs, which ask whether it is ready, with 200, and POSTs as `behave` says; None: the connection ends."""

    port: int
    calls: list[Asked] = field(default_factory=list)

    @property
    def svc(self) -> str:
        return f"127.0.0.1:{self.port}"

    def node(self, name: str, *dependencies: str, path: str = "", **more: Any) -> dict[str, Any]:
        found = node(name, "", *dependencies, **more)
        found["implementation"] = {"svc": f"{self.svc}{path}", "protocol": "v2"}
        return found


@contextlib.contextmanager
def service(behave: Callable[[Asked], Reply | None]) -> Iterator[Service]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._say(Reply({"ready": True}))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.path, headers, body, self.connection)
            made.calls.append(asked)
            reply = behave(asked)
            if reply is None:
                self.close_connection = True
            else:
                self._say(reply)

        def _say(self, reply: Reply) -> None:
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.code)
            for name, value in {"content-length": str(len(body)), **reply.headers}.items():
                self.send_header(name, value)
            with contextlib.suppress(ConnectionError):  # whoever asked may have left
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *words: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.block_on_close = False
        made = Service(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


def outputs(*data: float, name: str = "y", **more: Any) -> dict[str, Any]:
    """An answer of V2 with one tensor."""
    tensor = {"name": name, "datatype": "FP64", "shape": [len(data)], "data": list(data)}
    return {"model_name": "service", "outputs": [tensor], **more}


_DEAF: list[socket.socket] = []
"""Bound and not listening, for as long as the tests run: nobody else gets their ports meanwhile."""


def unused_port() -> int:
    """Where every connection is refused."""
    _DEAF.append(socket.socket())
    _DEAF[-1].bind(("127.0.0.1", 0))
    return int(_DEAF[-1].getsockname()[1])


def address_of(plane: planes.TestPlane) -> tuple[str, int]:
    parts = urlsplit(plane.inference_url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def send_and_leave(plane: planes.TestPlane, name: str, until: Callable[[], object]) -> None:
    """A client that asks, and goes away without its answer once something has happened."""
    body = json.dumps(request()).encode()
    head = f"POST /v2/models/{name}/infer HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(address_of(plane)) as connection:
        connection.sendall(head.encode() + body)
        planes.wait_until(until, "the request is on its way")
