"""Who takes part in a case, each in its best configuration.

`tuned` means: one process for the model, access logs off, uvloop and httptools where the server lets one choose, and
whatever its documentation says makes it faster; metrics stay on where they are. A server with batching of its own
takes part with and without; in comparisons the better one counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import contestants
from bench.peers import questions
from bench.peers.questions import Case
from bench.peers.server import ROOT, Launch, Place

PROGRAMS = Path(__file__).with_name("programs")
BATCH, BATCH_SECONDS = 64, 0.005
"""Of every server that batches: at most so many, and so long to wait for them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A server in one of its configurations, for one case."""

    peer: str
    """Whose environment it runs in."""
    name: str
    """As tables show it."""
    launch: Launch
    apart: bool = False
    """Is it busy while nobody asks? Then it runs when no other one does."""


def venv(peer: str) -> Path:
    return ROOT / ".venvs" / f"bench-{peer}"


def entries(peer: str, case: Case) -> Iterator[Entry]:
    """None when the peer cannot do what the case asks."""
    if (case.grpc and peer not in OVER_GRPC) or (case.members and peer not in COMPOSING):
        return
    for make in PEERS[peer]:
        if entry := make(case):
            yield entry


def nginx(case: Case) -> Entry | None:
    """A constant: the floor of what HTTP costs here."""
    if case.name not in ("iris", "noop"):
        return None

    def command(place: Place) -> list[str]:
        return contestants.nginx(place.folder).command(place.port)

    return Entry("nginx", "nginx", Launch(command, contestants.PATH, questions.v2, right=[0]))


def fastapi(case: Case) -> Entry | None:
    """What one would write by hand."""
    if not case.model or case.binary:
        return None

    def command(place: Place) -> list[str]:
        model = place.models / f"{case.model}.joblib"
        program = contestants.fastapi(place.folder, model)
        return ["env", *(f"{key}={value}" for key, value in program.environ.items()), *program.command(place.port)]

    return Entry("fastapi", "fastapi", Launch(command, contestants.PATH, questions.v2))


def mlserver(case: Case, *, batching: bool = False) -> Entry | None:
    """In process: its pool of workers costs more than twice as much for one model. Bytes only over gRPC."""
    if case.binary or not _fits(case, batching=batching):
        return None

    def command(place: Place) -> list[str]:
        http, grpc, metrics, *_ = place.ports
        ports = {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_port": metrics}
        settings = {"debug": False, "parallel_workers": 0, "gzip_enabled": False}
        model: dict[str, object] = {"name": "m", "implementation": "mlserver_noop.Noop"}
        if case.model:
            model["implementation"] = "mlserver_sklearn.SKLearnModel"
            model["parameters"] = {"uri": str(place.models / f"{case.model}.joblib")}
        if batching:
            model |= {"max_batch_size": BATCH, "max_batch_time": BATCH_SECONDS}
        (place.folder / "settings.json").write_text(json.dumps(ports | settings))
        (place.folder / "model-settings.json").write_text(json.dumps(model))
        return [f"{venv('mlserver')}/bin/mlserver", "start", str(place.folder)]

    environ = {"PYTHONPATH": str(PROGRAMS)}
    launch = Launch(command, "/v2/models/m/infer", questions.v2, environ, venv("mlserver"))
    if case.grpc:
        launch = Launch(command, questions.GRPC_PATH, questions.v2_grpc, environ, venv("mlserver"), port=1)
    return Entry("mlserver", _name("mlserver", batching=batching), launch)


def kserve(case: Case) -> Entry | None:
    """Its batching is a program of its own that runs in Kubernetes."""

    def command(place: Place) -> list[str]:
        server = [f"{venv('kserve')}/bin/python", str(PROGRAMS / "kserve_server.py"), _file(case, place)]
        quiet = ["--enable_latency_logging", "false", "--log_config_file", str(PROGRAMS / "kserve_log.json")]
        grpc = (
            ["--enable_grpc", "true", "--grpc_port", str(place.ports[1])] if case.grpc else ["--enable_grpc", "false"]
        )
        return [*server, "--http_port", str(place.port), "--workers", "1", *grpc, *quiet]

    if case.grpc:
        launch = Launch(command, questions.GRPC_PATH, questions.v2_grpc, venv=venv("kserve"), port=1)
        return Entry("kserve", "kserve", launch)
    dialect = questions.v2_binary if case.binary else questions.v2
    return Entry("kserve", "kserve", Launch(command, "/v2/models/m/infer", dialect, venv=venv("kserve")))


def bentoml(case: Case, *, batching: bool = False) -> Entry | None:
    if case.binary or not _fits(case, batching=batching):
        return None

    def command(place: Place) -> list[str]:
        service = f"bento_service:{_kind(case, batching=batching).capitalize()}"
        if case.members:
            service = f"bento_ensemble:{'Batched' if batching else 'Plain'}Ensemble"
        server = [f"{venv('bentoml')}/bin/bentoml", "serve", service, "--working-dir", str(PROGRAMS)]
        model = f"BENCH_MODEL={_file(case, place)}"
        return ["env", model, *server, "--host", "127.0.0.1", "--port", str(place.port)]

    environ = {
        "BENTOML_DO_NOT_TRACK": "True",
        "BENTOML_CONFIG_OPTIONS": "api_server.logging.access.enabled=false",
    }
    launch = Launch(command, "/predict", questions.named, environ, venv("bentoml"))
    return Entry("bentoml", _name("bentoml", batching=batching), launch)


def litserve(case: Case, *, batching: bool = False) -> Entry | None:
    if case.binary or not _fits(case, batching=batching):
        return None

    def command(place: Place) -> list[str]:
        server = [f"{venv('litserve')}/bin/python", str(PROGRAMS / "lit_server.py"), str(place.port)]
        return [*server, _kind(case, batching=batching), _file(case, place)]

    dialect = questions.single if batching else questions.named
    launch = Launch(command, "/predict", dialect, venv=venv("litserve"))
    return Entry("litserve", _name("litserve", batching=batching), launch)


def mlflow(case: Case) -> Entry | None:
    """From folders of its own, which `environments.py` writes with it."""
    if case.binary:
        return None

    def command(place: Place) -> list[str]:
        folder = place.models / "mlflow" / (case.model or "noop")
        server = [f"{venv('mlflow')}/bin/mlflow", "models", "serve", "-m", str(folder), "--env-manager", "local"]
        return [*server, "-h", "127.0.0.1", "-p", str(place.port), "-w", "1"]

    environ = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "UVICORN_ACCESS_LOG": "false",
        "UVICORN_LOG_LEVEL": "warning",
    }
    return Entry("mlflow", "mlflow", Launch(command, "/invocations", questions.inputs, environ, venv("mlflow")))


def ray(case: Case, *, haproxy: bool = True, batching: bool = False) -> Entry | None:
    """Its standard proxy costs ten times as much as its HAProxy mode: shown for one row, where it is known from, and
    for an ensemble."""
    if not _fits(case, batching=batching) or (not haproxy and case.name not in ("iris", "ensemble")):
        return None
    environ = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_ENABLE_HA_PROXY": "1" if haproxy else "0",
        "RAY_SERVE_HAPROXY_NBTHREAD": "1",
    }

    def command(place: Place) -> list[str]:
        names = ("METRICS_PORT", "STATS_PORT")
        ports = [f"RAY_SERVE_HAPROXY_{name}={port}" for name, port in zip(names, place.ports[1:], strict=False)]
        server = [f"{venv('ray')}/bin/python", str(PROGRAMS / "ray_server.py"), str(place.port)]
        return ["env", *ports, *server, _kind(case, batching=batching), _file(case, place), str(place.folder)]

    dialect = questions.raw if case.binary else questions.named
    name = _name("ray haproxy" if haproxy else "ray", batching=batching)
    return Entry("ray", name, Launch(command, "/", dialect, environ, venv("ray")), apart=True)


Maker = Callable[[Case], Entry | None]
PEERS: dict[str, tuple[Maker, ...]] = {
    "nginx": (nginx,),
    "fastapi": (fastapi,),
    "mlserver": (mlserver, lambda case: mlserver(case, batching=True)),
    "kserve": (kserve,),
    "bentoml": (bentoml, lambda case: bentoml(case, batching=True)),
    "litserve": (litserve, lambda case: litserve(case, batching=True)),
    "mlflow": (mlflow,),
    "ray": (
        ray,
        lambda case: ray(case, haproxy=False),
        lambda case: ray(case, batching=True),
    ),
}
OVER_GRPC = ("mlserver", "kserve")
"""Those that speak V2 so."""
COMPOSING = ("bentoml", "ray")
"""Those that put models together by themselves."""
INSTALLED = ("mlserver", "kserve", "bentoml", "litserve", "mlflow", "ray")
"""Those with an environment of their own."""
FLOORS = ("nginx", "fastapi")
"""No model servers: what a comparison with the best peer leaves out."""


def _fits(case: Case, *, batching: bool) -> bool:
    """One call for several callers makes sense for single rows, and for a slow model nothing else does."""
    return case.name in ("iris", "grpc", "forest", "ensemble") if batching else case.name != "forest"


def _name(peer: str, *, batching: bool) -> str:
    return f"{peer}, batching" if batching else peer


def _kind(case: Case, *, batching: bool) -> str:
    if case.members:
        return "ensemble-batched" if batching else "ensemble"
    return "noop" if not case.model else "batched" if batching else "plain"


def _file(case: Case, place: Place) -> str:
    if case.members:
        return ":".join(str(place.models / questions.MEMBERS / f"{member}.joblib") for member in case.members)
    return str(place.models / f"{case.model}.joblib") if case.model else ""
