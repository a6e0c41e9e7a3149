"""A Workload as supervised processes, and a supervised process as the status of a replica. Pure."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mizzen.engines.local import http_env
from mizzen.engines.local.frame_probe import Readiness, Said
from mizzen.engines.local.gpus.allocation import ACCOUNT
from mizzen.engines.local.http_probe import HOST, Target
from mizzen.kinds.rules import workload_template
from mizzen.kinds.text.quantities import amount
from mizzen.kinds.workload import EXIT_OUT_OF_MEMORY, ReplicaState, ReplicaStatus, WorkloadSpec
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.protocol import KEPT_MEMORY, ProcessSpec, ProcessView, State

SAID_NOTHING = Said()
RANK = 2
"""Runtimes are stopped last: gateways owe their callers what runtimes still compute."""

_DEFAULTS = {"PYTHONUNBUFFERED": "1", **KEPT_MEMORY}
_PATHS = ("PYTHONPATH", "PYTHONHOME")
THREADS = ("MIZZEN_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why no replica can be started now, or ever."""

    state: ReplicaState
    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Built:
    """An environment that is there, for replicas to run in."""

    key: str
    python: str
    """Its interpreter."""
    parts: str
    """A folder with the runtime, and nothing else of ours."""
    safe_path: bool
    """Whether that interpreter knows `-P`: not to look for modules where it was started."""


@dataclass(frozen=True, slots=True)
class Place:
    """The names and files of one workload's replicas."""

    home: Home
    uid: str
    ports: Mapping[int, int] | None = None
    """Of each replica, where they answer HTTP; None: they take frames on sockets."""

    @property
    def work(self) -> Path:
        return self.home.data_dir / "work" / self.uid

    @property
    def files(self) -> Path:
        return self.work / "files"

    def folder(self, spec: WorkloadSpec, digest: str) -> Path:
        """Of the files that are called so. Each has its own: a process may have those it was given before open."""
        return self.files if digest == began_with(spec) else self.work / f"files-{digest}"

    @property
    def prefix(self) -> str:
        """What the keys of its replicas start with."""
        return f"{self.uid}."

    def key(self, index: int) -> str:
        return f"{self.uid}.{index}"

    def index(self, key: str) -> int:
        return int(key.removeprefix(self.prefix))

    def socket(self, index: int) -> Path:
        """Short, because the whole path has to fit into a socket's address."""
        return self.home.sockets / f"{self.uid[:12]}.{index}.sock"

    def address(self, index: int) -> str:
        if self.ports is None:
            return f"unix:{self.socket(index)}"
        return f"http://{HOST}:{self.ports[index]}" if index in self.ports else ""

    def sockets(self) -> list[Path]:
        return list(self.home.sockets.glob(f"{self.uid[:12]}.*.sock"))

    def termination_log(self, index: int) -> Path:
        return self.work / f"termination.{index}"

    def log(self, index: int) -> Path:
        return self.home.logs / f"{self.key(index)}.log"

    def logs(self) -> dict[int, Path]:
        """The log of each replica that ever ran, by index."""
        found = {int(path.name.split(".")[-2]): path for path in self.home.logs.glob(f"{self.uid}.*.log")}
        return dict(sorted(found.items()))


def split_key(key: str) -> tuple[str, int] | None:
    """(uid, index) of a replica's key; None for any other process."""
    uid, dot, index = key.rpartition(".")
    return (uid, int(index)) if dot and index.isdecimal() else None


def artifacts_digest(spec: WorkloadSpec) -> str:
    return workload_template.files_digest(
        {"path": artifact.path, "digest": artifact.digest} for artifact in spec.artifacts
    )


def began_with(spec: WorkloadSpec) -> str:
    """The files that make its processes what they are: those that they are given later make them no other ones."""
    return spec.began or artifacts_digest(spec)


def secrets_digest(spec: WorkloadSpec) -> str:
    """Of the references, not of the values: a secret that changes restarts nothing."""
    listing = "".join(f"{variable}\0{ref.name}\0{ref.key}\0" for variable, ref in sorted(spec.secret_env.items()))
    return hashlib.sha256(listing.encode()).hexdigest()[:16]


def threads_of(spec: WorkloadSpec, cores: int, replicas: int) -> int:
    """How many threads a replica's libraries use when `replicas` of all workloads share so many cores.

    Without a limit each of them would take a thread for every core, and all together fight for the same ones.
    """
    given = spec.resources
    if given is not None and given.threads is not None:
        return given.threads
    if given is not None and given.cpu is not None:
        return math.ceil(amount(given.cpu))
    return max(1, cores // max(1, replicas))


def retry_after(attempt: int) -> float:
    """Seconds after which a replica that gave up is begun anew: 1 minute, then ever more rarely, up to an hour."""
    return float(min(60 * 2 ** min(attempt, 6), 3600))


def memory_of(spec: WorkloadSpec) -> int | None:
    """Bytes that a replica may have; None: as many as there are."""
    given = spec.resources
    return int(amount(given.memory)) if given is not None and given.memory is not None else None


def targets_of(spec: WorkloadSpec, place: Place, told: Mapping[int, ReplicaStatus]) -> dict[int, Target]:
    """Where each replica is asked whether it is ready, by index; none, where they say so on their sockets."""
    found = {index: (replica.pid, replica.protocol) for index, replica in told.items()}
    return {
        index: Target(port, spec.model, spec.protocol, found.get(index, (None, "")), path=spec.ready_path)
        for index, port in (place.ports or {}).items()
    }


def process_of(
    spec: WorkloadSpec,
    place: Place,
    index: int,
    *,
    python: str,
    threads: int = 1,
    secrets: Mapping[str, str] | None = None,
    files: str | None = None,
    built: Built | None = None,
    gpus: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> ProcessSpec:
    """`secrets` are the values of `spec.secret_env`, by the names of the variables. `files`: those that it begins with
    when it is started next; None: as the spec says. `built`: its environment, if it has one of its own. `gpus`:
    variables that say which GPUs it may use, or that it may use none. `cwd`: where it starts; None: in its folder."""
    files = files or artifacts_digest(spec)
    # What says who has which GPU is never of a spec's own making: it is read back to share them out.
    ours = ACCOUNT.union(gpus or (), _PATHS if built is not None else ())
    reloaded = {"MIZZEN_RELOADED": str(place.folder(spec, files)), "MIZZEN_RELOADED_DIGEST": files}
    command, said, told = _told(spec, place, index)
    program, *arguments = command
    memory = memory_of(spec)
    argv = (*_interpreter(python, built, spec), *arguments) if program == "python" else command
    withheld = ACCOUNT.union(gpus or ())
    return ProcessSpec(
        key=place.key(index),
        argv=argv,
        env={
            **_DEFAULTS,
            **{name: value for name, value in said.items() if name not in ours},
            **told,
            "MIZZEN_ARTIFACTS": str(place.files),
            # Also because they make a process with other files or other secrets another process, started anew.
            "MIZZEN_ARTIFACTS_DIGEST": began_with(spec),
            **({"MIZZEN_SECRETS_DIGEST": secrets_digest(spec)} if spec.secret_env else {}),
            "MIZZEN_TERMINATION_LOG": str(place.termination_log(index)),
            "MIZZEN_DATA_DIR": str(place.home.data_dir),
            **({"MIZZEN_MEMORY": str(memory)} if memory is not None else {}),
            **({"MIZZEN_ENVIRONMENT": built.key} if built is not None else {}),
            **(gpus if gpus and spec.gpu is not None else {}),
        },
        # How many others there are must not make it another process: what it may use is said at its next start. Nor do
        # files that it takes without a restart, nor the runtime of another release.
        varying=dict.fromkeys(THREADS, str(threads))
        | (reloaded if files != began_with(spec) else {})
        | (_importable(built, spec) if built is not None else {})
        | (dict(gpus) if gpus and spec.gpu is None else {}),
        memory=memory,
        secret_names=tuple(sorted(spec.secret_env.keys() - told.keys())),
        secrets={name: value for name, value in (secrets or {}).items() if name not in withheld.union(told)},
        cwd=cwd or str(place.work),
        log=str(place.log(index)),
        restart="always" if spec.restart == "Always" else "never",
        grace=spec.grace_seconds,
        termination_log=str(place.termination_log(index)),
        rank=RANK,
    )


def _told(spec: WorkloadSpec, place: Place, index: int) -> tuple[tuple[str, ...], Mapping[str, str], Mapping[str, str]]:
    """Its command, its own variables, and those that say where it is to be found."""
    if spec.purpose == "serve":
        return spec.command, spec.env, {"MIZZEN_SOCKET": str(place.socket(index))}
    assert place.ports is not None
    return http_env.expanded(spec.command, spec.env, place.ports[index])


def _interpreter(python: str, built: Built | None, spec: WorkloadSpec) -> tuple[str, ...]:
    program, safe_path = (python, True) if built is None else (built.python, built.safe_path)
    # What answers is somebody's own program, which may import what lies beside it.
    return (program, "-P") if safe_path and spec.purpose == "serve" else (program,)


def _importable(built: Built, spec: WorkloadSpec) -> dict[str, str]:
    """Where Python looks for modules beside its environment: the runtime, then what the spec says. What else the plane
    may have been started with is nothing to it. The first replica compiles what it imports, for all that come."""
    said = spec.env.get("PYTHONPATH")
    path = f"{built.parts}{os.pathsep}{said}" if said else built.parts
    return {"PYTHONPATH": path, "PYTHONHOME": "", "PYTHONDONTWRITEBYTECODE": ""}


def status_of(
    view: ProcessView,
    readiness: Readiness,
    place: Place,
    index: int,
    *,
    told: ReplicaStatus | None,
    wanted: bool,
    said: Said = SAID_NOTHING,
    lacks: str = "",
) -> ReplicaStatus:
    """`told` is what was reported last, maybe by an engine before this one. `lacks`: why a process that runs is not
    ready, as far as that is known."""
    state = _state(view, readiness, told, wanted=wanted)
    if not said.files and told is not None:
        said = Said(files=told.files, reloads=told.reloads, protocol=said.protocol or told.protocol)
    running = view.state is State.RUNNING
    return ReplicaStatus(
        index=index,
        state=state,
        address=place.address(index),
        pid=view.pid,
        restarts=view.restarts,
        exit_code=view.exit_code,
        reason="OutOfMemory" if state != "ready" and view.exit_code == EXIT_OUT_OF_MEMORY else "",
        message="" if state == "ready" else (running and lacks) or _message(view, wanted=wanted),
        files=said.files,
        reloads=said.reloads,
        protocol=said.protocol,
    )


def unseen(place: Place, index: int, *, told: ReplicaStatus | None) -> ReplicaStatus:
    """A replica that should exist, before the supervisor was asked: what was reported last is all we know."""
    address = place.address(index)
    if told is not None:
        return told.model_copy(update={"address": address})
    return ReplicaStatus.model_validate(
        {"index": index, "state": "waiting", "address": address, "message": "waiting for the supervisor"}
    )


def held_up(place: Place, index: int, obstacle: Obstacle, *, seen: ReplicaStatus | None) -> ReplicaStatus:
    """A replica that should exist and cannot be started. What runs without minding the obstacle is told as it is."""
    if seen is None:
        given = {"index": index, "state": obstacle.state, "address": place.address(index)}
        seen = ReplicaStatus.model_validate(given)
    elif seen.state != "waiting" or not obstacle.reason:
        return seen
    return seen.model_copy(update={"reason": obstacle.reason, "message": obstacle.message})


def due(
    wanted: Sequence[ProcessSpec], present: Mapping[str, ProcessView], ready: Callable[[ProcessView], bool]
) -> list[ProcessSpec]:
    """Which processes to ask the supervisor for now: all, but of those that would replace one that serves only one.

    And that only when all the others are ready, so that somebody goes on serving as long as there are several.
    """
    serving = [process for process in wanted if _serves_another_spec(process, present.get(process.key), ready)]
    others = [process for process in wanted if process not in serving]
    settled = all(process.key in present and ready(present[process.key]) for process in others)
    return others + serving[: 1 if settled else 0]


def _serves_another_spec(process: ProcessSpec, view: ProcessView | None, ready: Callable[[ProcessView], bool]) -> bool:
    return view is not None and view.fingerprint != process.fingerprint and ready(view)


def _state(view: ProcessView, readiness: Readiness, told: ReplicaStatus | None, *, wanted: bool) -> ReplicaState:
    if view.state is State.WAITING:
        return "waiting"
    if view.state is State.FAILED:
        return "failed"
    if view.state is not State.RUNNING or readiness == "draining":
        return "starting" if wanted else "stopping"
    if readiness == "unknown":
        # A new plane has yet to hear from a replica that was ready all the time.
        known = told is not None and told.state == "ready" and told.pid == view.pid
        return "ready" if known else "starting"
    return "starting" if readiness == "foreign" else readiness


def _message(view: ProcessView, *, wanted: bool) -> str:
    if wanted and view.state is State.STOPPING:
        return "ending, to be started anew"
    if view.message or view.exit_time is None:
        return view.message
    return "ended; its exit code is not known" if view.exit_code is None else f"exited with code {view.exit_code}"
