"""Conversion of a Workload to supervised processes, and of a supervised process to a replica's status. Pure."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mizzen.confinement.spec import Confinement
from mizzen.engines.local import http_env
from mizzen.engines.local.gpus.allocation import ACCOUNTING
from mizzen.engines.local.probes.frame_probe import ProbeState, Readiness, ReplicaReport
from mizzen.engines.local.probes.http_probe import HOST, HttpTarget
from mizzen.kinds.rules import workload_template
from mizzen.kinds.text.quantities import amount
from mizzen.kinds.workload import EXIT_OUT_OF_MEMORY, ReplicaState, ReplicaStatus, WorkloadSpec
from mizzen.protocol.frames.authentication import key_path
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.protocol import KEPT_MEMORY, ProcessSpec, ProcessView, State

RANK = 2
"""Runtimes are stopped last: gateways still wait for responses that runtimes compute."""

_DEFAULTS = {"PYTHONUNBUFFERED": "1", **KEPT_MEMORY}
_PATHS = ("PYTHONPATH", "PYTHONHOME")
THREADS = ("MIZZEN_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why no replica can be started, now or ever."""

    state: ReplicaState
    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BuiltEnvironment:
    """A complete environment for replicas to run in."""

    key: str
    python: str
    """Its interpreter."""
    parts: str
    """A folder with the runtime and none of our other modules."""
    safe_path: bool
    """Whether that interpreter supports `-P`, which keeps its working directory off the module path."""


@dataclass(frozen=True, slots=True)
class WorkloadPaths:
    """The names, paths and ports of one workload's replicas."""

    home: Home
    uid: str
    ports: Mapping[int, int] | None = None
    """The port of each HTTP replica; None: replicas accept frames on sockets."""

    @property
    def work(self) -> Path:
        return self.home.data_dir / "work" / self.uid

    @property
    def files(self) -> Path:
        return self.work / "files"

    @property
    def scratch(self) -> Path:
        """HOME and TMPDIR of its processes, the only folder here that they may write to."""
        return self.work / "scratch"

    def folder(self, spec: WorkloadSpec, digest: str) -> Path:
        """The folder of the files with this digest. Each has its own: a process may still have earlier files open."""
        return self.files if digest == initial_files(spec) else self.work / f"files-{digest}"

    @property
    def prefix(self) -> str:
        """The prefix of its replicas' keys."""
        return f"{self.uid}."

    def key(self, index: int) -> str:
        return f"{self.uid}.{index}"

    def index(self, key: str) -> int:
        return int(key.removeprefix(self.prefix))

    @property
    def socket_folder(self) -> Path:
        return self.home.sockets / self.uid[:12]

    def socket(self, index: int) -> Path:
        """Short, because the whole path must fit into a socket's address."""
        return self.socket_folder / f"{index}.sock"

    def address(self, index: int) -> str:
        if self.ports is None:
            return f"unix:{self.socket(index)}"
        return f"http://{HOST}:{self.ports[index]}" if index in self.ports else ""

    def termination_log(self, index: int) -> Path:
        """Written by the replica's own process, which can write nowhere else."""
        return self.scratch / f"termination.{index}"

    @property
    def runner_termination_log(self) -> Path:
        """Out of reach of the runner's command: a link in its place would make the runner write elsewhere."""
        return self.work / "termination"

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


def initial_files(spec: WorkloadSpec) -> str:
    """The files that identify its processes: files that they reload later do not make them other processes."""
    return spec.began or artifacts_digest(spec)


def secrets_digest(spec: WorkloadSpec) -> str:
    """A digest of the references, not of the values: a changed secret restarts nothing."""
    listing = "".join(f"{variable}\0{ref.name}\0{ref.key}\0" for variable, ref in sorted(spec.secret_env.items()))
    return hashlib.sha256(listing.encode()).hexdigest()[:16]


def threads_of(spec: WorkloadSpec, cores: int, replicas: int) -> int:
    """The number of threads of a replica's libraries when `replicas` of all workloads share so many cores.

    Without a limit, each replica would use a thread per core, and all of them would compete for the same cores.
    """
    resources = spec.resources
    if resources is not None and resources.threads is not None:
        return resources.threads
    if resources is not None and resources.cpu is not None:
        return math.ceil(amount(resources.cpu))
    return max(1, cores // max(1, replicas))


def retry_after(attempt: int) -> float:
    """Seconds until a failed replica is started again: 1 minute, then doubling up to an hour."""
    return float(min(60 * 2 ** min(attempt, 6), 3600))


def memory_of(spec: WorkloadSpec) -> int | None:
    """The memory limit of a replica in bytes; None: no limit."""
    resources = spec.resources
    return int(amount(resources.memory)) if resources is not None and resources.memory is not None else None


def cpu_of(spec: WorkloadSpec) -> float | None:
    """The CPUs that a replica may use; None: no limit."""
    resources = spec.resources
    return float(amount(resources.cpu)) if resources is not None and resources.cpu is not None else None


def targets_of(
    spec: WorkloadSpec, paths: WorkloadPaths, reported: Mapping[int, ReplicaStatus]
) -> dict[int, HttpTarget]:
    """The HTTP probe of each replica, by index; empty if replicas report readiness on their sockets."""
    found = {index: (replica.pid, replica.protocol) for index, replica in reported.items()}
    return {
        index: HttpTarget(port, spec.model, spec.protocol, found.get(index, (None, "")), path=spec.ready_path)
        for index, port in (paths.ports or {}).items()
    }


def process_of(
    spec: WorkloadSpec,
    paths: WorkloadPaths,
    index: int,
    *,
    python: str,
    threads: int = 1,
    secrets: Mapping[str, str] | None = None,
    files: str | None = None,
    built: BuiltEnvironment | None = None,
    gpus: Mapping[str, str] | None = None,
    cwd: str | None = None,
    confinement: Confinement | None = None,
    pids: int | None = None,
) -> ProcessSpec:
    """`secrets` are the values of `spec.secret_env`, by variable. `files`: the digest of the files that it starts with
    next time; None: those of the spec. `built`: its own environment, if it has one. `gpus`: variables that name the
    GPUs it may use, or hide them all. `cwd`: its working directory; None: its own folder.
    `confinement`: what it may reach; None: everything that the plane may. `pids`: how many processes and threads it may
    have."""
    files = files or artifacts_digest(spec)
    # A spec must not set the variables that record GPU allocations: the engine reads them back.
    ours = ACCOUNTING.union(gpus or (), _PATHS if built is not None else ())
    reloaded = {"MIZZEN_RELOADED": str(paths.folder(spec, files)), "MIZZEN_RELOADED_DIGEST": files}
    command, own_env, address_env = _command_and_env(spec, paths, index)
    program, *arguments = command
    argv = (*_interpreter(python, built, spec), *arguments) if program == "python" else command
    withheld = ACCOUNTING.union(gpus or ())
    return ProcessSpec(
        key=paths.key(index),
        argv=argv,
        env={
            **_DEFAULTS,
            **{name: value for name, value in own_env.items() if name not in ours},
            **address_env,
            "MIZZEN_ARTIFACTS": str(paths.files),
            # A process with other files has another fingerprint, so that it is restarted.
            "MIZZEN_ARTIFACTS_DIGEST": initial_files(spec),
            **({"MIZZEN_ENVIRONMENT": built.key} if built is not None else {}),
            **common_env(spec, paths, index, gpus),
        },
        # These change without a restart and apply at the next start: the thread limit, which depends on other replicas;
        # files that it reloads; and the runtime of another release.
        varying=dict.fromkeys(THREADS, str(threads))
        | (reloaded if files != initial_files(spec) else {})
        | (_python_path(built, spec) if built is not None else {})
        | (dict(gpus) if gpus and spec.gpu is None else {}),
        memory=memory_of(spec),
        pids=pids,
        cpu=cpu_of(spec),
        secret_names=tuple(sorted(spec.secret_env.keys() - address_env.keys())),
        secrets={name: value for name, value in (secrets or {}).items() if name not in withheld.union(address_env)},
        cwd=cwd or str(paths.work),
        log=str(paths.log(index)),
        restart="always" if spec.restart == "Always" else "never",
        grace=spec.grace_seconds,
        termination_log=str(paths.termination_log(index)),
        rank=RANK,
        confinement=confinement,
    )


def common_env(spec: WorkloadSpec, paths: WorkloadPaths, index: int, gpus: Mapping[str, str] | None) -> dict[str, str]:
    """The variables of all processes, also of runners. Those of GPUs are here only if the spec requests one."""
    memory = memory_of(spec)
    return {
        # A process with other secrets has another fingerprint, so that it is restarted.
        **({"MIZZEN_SECRETS_DIGEST": secrets_digest(spec)} if spec.secret_env else {}),
        "MIZZEN_TERMINATION_LOG": str(
            paths.termination_log(index) if spec.task is None else paths.runner_termination_log
        ),
        "MIZZEN_DATA_DIR": str(paths.home.data_dir),
        **({"MIZZEN_MEMORY": str(memory)} if memory is not None else {}),
        **(gpus if gpus and spec.gpu is not None else {}),
    }


def _command_and_env(
    spec: WorkloadSpec, paths: WorkloadPaths, index: int
) -> tuple[tuple[str, ...], Mapping[str, str], Mapping[str, str]]:
    """Its command, its own variables, and those of its socket or port."""
    if spec.purpose == "serve":
        socket = str(paths.socket(index))
        return spec.command, spec.env, {"MIZZEN_SOCKET": socket, "MIZZEN_SOCKET_KEY": str(key_path(socket))}
    assert paths.ports is not None
    return http_env.expand_all(spec.command, spec.env, paths.ports[index])


def _interpreter(python: str, built: BuiltEnvironment | None, spec: WorkloadSpec) -> tuple[str, ...]:
    program, safe_path = (python, True) if built is None else (built.python, built.safe_path)
    # An HTTP server is a user's program, which may import modules from its own folder.
    return (program, "-P") if safe_path and spec.purpose == "serve" else (program,)


def _python_path(built: BuiltEnvironment, spec: WorkloadSpec) -> dict[str, str]:
    """The module path in addition to the environment: the runtime, then the PYTHONPATH of the spec. The variables of
    the plane's process are not inherited. The first replica writes the bytecode of its imports for all later ones."""
    own = spec.env.get("PYTHONPATH")
    path = f"{built.parts}{os.pathsep}{own}" if own else built.parts
    return {"PYTHONPATH": path, "PYTHONHOME": "", "PYTHONDONTWRITEBYTECODE": ""}


def status_of(
    view: ProcessView,
    probed: ProbeState,
    paths: WorkloadPaths,
    index: int,
    *,
    reported: ReplicaStatus | None,
    wanted: bool,
) -> ReplicaStatus:
    """`reported` is the last report, maybe by an earlier engine."""
    state, report = _state(view, probed.readiness, reported, wanted=wanted), probed.report
    if not report.files and reported is not None:
        report = ReplicaReport(
            files=reported.files, reloads=reported.reloads, protocol=report.protocol or reported.protocol
        )
    running = view.state is State.RUNNING
    return ReplicaStatus(
        index=index,
        state=state,
        address=paths.address(index),
        pid=view.pid,
        restarts=view.restarts,
        exit_code=view.exit_code,
        reason="OutOfMemory" if state != "ready" and _lacked_memory(view) else "",
        message="" if state == "ready" else (running and probed.message) or _message(view, wanted=wanted),
        files=report.files,
        reloads=report.reloads,
        protocol=report.protocol,
    )


def status_of_unobserved(paths: WorkloadPaths, index: int, *, reported: ReplicaStatus | None) -> ReplicaStatus:
    """A replica that should exist, before any answer of the supervisor: only the last report is known."""
    address = paths.address(index)
    if reported is not None:
        return reported.model_copy(update={"address": address})
    return ReplicaStatus(index=index, state="waiting", address=address, message="waiting for the supervisor")


def status_of_blocked(
    paths: WorkloadPaths, index: int, obstacle: Obstacle, *, seen: ReplicaStatus | None
) -> ReplicaStatus:
    """A replica that should exist and cannot be started. A running replica is reported as it is."""
    if seen is None:
        seen = ReplicaStatus(index=index, state=obstacle.state, address=paths.address(index))
    elif seen.state != "waiting" or not obstacle.reason:
        return seen
    return seen.model_copy(update={"reason": obstacle.reason, "message": obstacle.message})


def choose_due(
    wanted: Sequence[ProcessSpec], present: Mapping[str, ProcessView], ready: Callable[[ProcessView], bool]
) -> list[ProcessSpec]:
    """The processes to start now: all, except that only one of those that replace a serving process is included.

    That one is included only when all others are ready, so that with several replicas some always serve.
    """

    def serves_another_spec(process: ProcessSpec) -> bool:
        view = present.get(process.key)
        return view is not None and view.fingerprint != process.fingerprint and ready(view)

    serving = [process for process in wanted if serves_another_spec(process)]
    others = [process for process in wanted if process not in serving]
    settled = all(process.key in present and ready(present[process.key]) for process in others)
    return others + serving[: 1 if settled else 0]


def _state(view: ProcessView, readiness: Readiness, reported: ReplicaStatus | None, *, wanted: bool) -> ReplicaState:
    if view.state is State.WAITING:
        return "waiting"
    if view.state is State.FAILED:
        return "failed"
    if view.state is not State.RUNNING or readiness == "draining":
        return "starting" if wanted else "stopping"
    if readiness == "unknown":
        # A new plane has not yet heard from a replica that has been ready all the time.
        known = reported is not None and reported.state == "ready" and reported.pid == view.pid
        return "ready" if known else "starting"
    return "starting" if readiness == "foreign" else readiness


def _lacked_memory(view: ProcessView) -> bool:
    """Its runtime said so, or the kernel ended it."""
    return view.exit_code == EXIT_OUT_OF_MEMORY or view.reason == "OutOfMemory"


def _message(view: ProcessView, *, wanted: bool) -> str:
    if wanted and view.state is State.STOPPING:
        return "stopping, to be restarted"
    if view.message or view.exit_time is None:
        return view.message
    return "ended; its exit code is not known" if view.exit_code is None else f"exited with code {view.exit_code}"
