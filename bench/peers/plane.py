"""Mizzen as a contestant: a plane of its own for each case, brought up and told what to serve through its CLI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bench import contestants, members
from bench.peers import questions
from bench.peers.lineup import PROGRAMS
from bench.peers.questions import Case
from bench.peers.server import await_right

OBJECTIVE_MS = 200
"""The latency that the forest is to stay within: `timeoutMs`, which adaptive batching works towards."""


@dataclass
class Plane(contestants.Mizzen):
    """`spec` of an InferenceModel beside what is always in it; None: as `mizzen deploy` serves it."""

    case: Case = field(kw_only=True)
    spec: dict[str, Any] | None = None

    @property
    def asking(self) -> questions.Question:
        if self.case.grpc:
            return questions.v2_grpc(self.case.rows)
        return questions.v2_binary(self.case.rows) if self.case.binary else questions.v2(self.case.rows)

    def start(self) -> None:
        self.folder.mkdir()
        self._cli("up", "--detach", "--port", "0", "--inference-port", "0", "--grpc-port", "0", "--tls-port", "0")
        if self.case.members:
            self._compose()
        elif self.spec is None:
            self._cli("deploy", str(self.model), "--name", "m")
        else:
            self._serve(self.spec)
        status = json.loads(self._cli("status", "-o", "json"))
        self.url = f"{status['inference_url']}/v2/models/m/infer"
        if self.case.grpc:
            self.url = f"http://{status['grpc_address']}{questions.GRPC_PATH}"
        await_right(self.url, self.asking, self.case.right)

    def _serve(self, spec: dict[str, Any]) -> None:
        framework = "sklearn" if self.case.model else "python"
        entrypoint = () if self.case.model else ("--entrypoint", "noop:Noop")
        self._cli("model", "create", "m")
        self._cli("version", "add", "m", str(self.model), *entrypoint)
        manifest = self.folder / "server.json"
        server = {"modelName": "m", "targetVersion": "1", "deployToLayer": "cloud", "frameworkType": framework}
        wanted = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "InferenceModel", "metadata": {"name": "m"}}
        manifest.write_text(json.dumps(wanted | {"spec": server | spec}))
        self._cli("apply", "-f", str(manifest), "--wait")

    def _compose(self) -> None:
        for member in self.case.members:
            self._cli("deploy", str(self.model / f"{member}.joblib"), "--name", member)
        manifest = self.folder / "graph.json"
        manifest.write_text(json.dumps(members.graph("m", members.ensemble())))
        self._cli("apply", "-f", str(manifest), "--wait")


def specs(case: Case) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """The name of each configuration that takes part in a case."""
    off: dict[str, Any] = {"batching": {"batchSize": 1}}
    if case.name == "forest":
        yield "mizzen", {"batching": {"batchSize": "auto"}, "timeoutMs": OBJECTIVE_MS}
        yield "mizzen, batching off", off
    elif not case.model:
        yield "mizzen", {"batching": {"batchSize": 64}}
        yield "mizzen, batching off", off
    else:
        yield "mizzen", None


def model_of(case: Case) -> str:
    """The file to serve, relative to the folder of models or whole; the folder where there are several."""
    if case.members:
        return questions.MEMBERS
    return f"{case.model}.joblib" if case.model else str(PROGRAMS / "noop.py")
