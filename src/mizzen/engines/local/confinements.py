"""The confinement of each process that runs users' code: which of the plane's files it may reach. Pure.

Everything in the data dir is out of reach except what is listed here: the admin's token, keys, databases, blobs, and
the files of all other models.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mizzen.confinement.spec import Confinement
from mizzen.engines.local.process_specs import BuiltEnvironment, WorkloadPaths
from mizzen.kinds.workload import WorkloadSpec
from mizzen.runs import paths as run_paths
from mizzen.runs.paths import JobPlace
from mizzen.supervisor.data_dir import Home

_SHOW_KEY = "show-key"
_LOGDIR = "--logdir="


@dataclass(frozen=True, slots=True)
class ConfinementPolicy:
    """The operator's settings."""

    enabled: bool = True
    read: tuple[str, ...] = ()
    """More folders that users' code may read, except what is protected in them."""
    write: tuple[str, ...] = ()
    """More folders that users' code may read and write."""
    user: str = ""
    """The user that it runs as; empty: the plane's."""
    pids: int | None = 1024
    """How many processes and threads each replica may have; None: no limit."""
    protected: tuple[str, ...] = ()
    """Paths outside the data dir that it must not read, such as the key of a certificate."""


DEFAULT_CONFINEMENT = ConfinementPolicy()


def of_replica(
    policy: ConfinementPolicy,
    spec: WorkloadSpec,
    paths: WorkloadPaths,
    *,
    built: BuiltEnvironment | None = None,
    cwd: str | None = None,
) -> Confinement | None:
    """For a process that serves a model, a program of a graph, or a tool that shows metrics."""
    if not policy.enabled:
        return None
    read = [str(paths.work), *_environment(built)]
    if spec.purpose == "show":
        shown = [word.removeprefix(_LOGDIR) for word in spec.command if word.startswith(_LOGDIR)]
        read += [*shown, str(paths.home.run / _SHOW_KEY)]
    return Confinement(
        read=tuple(read),
        write=(str(paths.scratch), str(paths.socket_folder), *policy.write),
        outside=(*((cwd,) if cwd else ()), *_interpreter(built), *policy.read),
        protected=_list_protected(policy, paths.home),
        home=str(paths.scratch),
        user=policy.user,
    )


def of_command(
    policy: ConfinementPolicy,
    spec: WorkloadSpec,
    paths: WorkloadPaths,
    namespace: str,
    *,
    built: BuiltEnvironment | None = None,
) -> Confinement | None:
    """For the command of a training job. Its runner is Mizzen's own."""
    if not policy.enabled or spec.task is None:
        return None
    task, job = spec.task, JobPlace(paths.home.data_dir, spec.task.job_uid)
    events = run_paths.events(
        paths.home.data_dir, namespace=namespace, model=task.model, version=task.version, job=task.job
    )
    place = job.replica(task.replica)
    dataset = task.dataset.wire() if task.dataset is not None else {}
    outside = [each for each in (spec.working_dir, dataset.get("path")) if each]
    own = (paths.work / "code", paths.scratch, job.checkpoints, events, place.reported)
    return Confinement(
        read=(str(job.dataset), *_environment(built)),
        write=(*map(str, own), *policy.write),
        outside=(*outside, *_interpreter(built), *policy.read),
        protected=_list_protected(policy, paths.home),
        home=str(paths.scratch),
        user=policy.user,
    )


def of_build(policy: ConfinementPolicy, home: Home, wheels: str) -> Confinement | None:
    """For the code of packages while an environment is built. The builder adds the folders of that environment.

    `wheels`: the folder that packages come from, if any.
    """
    if not policy.enabled:
        return None
    return Confinement(
        write=policy.write,
        outside=(*((wheels,) if wheels else ()), *policy.read),
        protected=_list_protected(policy, home),
        user=policy.user,
    )


def _environment(built: BuiltEnvironment | None) -> list[str]:
    """The folder of the environment, and the runtime's modules."""
    return [str(Path(built.python).parents[1]), built.parts] if built is not None else []


def _interpreter(built: BuiltEnvironment | None) -> list[str]:
    """The interpreter that an environment was made from, and its folder. Its packages could have replaced the link
    that leads there, so that it names the plane's files: these stay protected."""
    if built is None:
        return []
    python = Path(built.python)
    return [built.python, str(python.resolve().parents[1])]


def _list_protected(policy: ConfinementPolicy, home: Home) -> tuple[str, ...]:
    return (str(home.data_dir), str(home.run), *policy.protected)
