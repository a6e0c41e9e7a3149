"""The start of one process: its environment, its output, its limits, its containment and its confinement."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mizzen.confinement import launcher, machine
from mizzen.confinement.output_pipe import OutputPipe
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.processes import procfs
from mizzen.supervisor.processes.containment import Containment, Enclosure
from mizzen.supervisor.processes.log_rotation import LogRetention
from mizzen.supervisor.protocol import ProcessSpec


@dataclass(frozen=True, slots=True)
class SpawnContext:
    """What all processes of a supervisor are started with."""

    home: Home
    environment: Mapping[str, str]
    listeners: Mapping[str, int]
    containment: Containment
    logs: LogRetention


def spawn(spec: ProcessSpec, run: str, context: SpawnContext, pipe: OutputPipe | None) -> int:
    """Returns the pid. `run` is the id of this start. `pipe` takes its output; None: its log does, or it is a runner.

    Raises OSError, TypeError, ValueError.
    """
    if spec.termination_log:
        Path(spec.termination_log).unlink(missing_ok=True)
    environment = _environment(spec, run, context, pipe)
    if spec.listeners:
        environment["MIZZEN_LISTENERS"] = json.dumps(dict(context.listeners))
    enclosure = context.containment.enclose(spec, run)
    output = -1
    try:
        output = _open_output(spec, pipe)
        child = subprocess.Popen(
            spec.argv,
            env=environment,
            cwd=spec.cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=tuple(context.listeners.values()) if spec.listeners else (),
            preexec_fn=_setup(spec, enclosure),  # noqa: PLW1509 - it makes system calls only
        )
    except subprocess.SubprocessError as error:
        raise OSError("it cannot be confined; its log says why") from error
    finally:
        if output >= 0:
            os.close(output)
        enclosure.close()
    if spec.memory is not None and enclosure.namespace == "none":
        procfs.limit_data(child.pid, spec.memory)
    child.returncode = 0  # `Exits` reaps it; this keeps Popen from also waiting for it
    return child.pid


def _open_output(spec: ProcessSpec, pipe: OutputPipe | None) -> int:
    """A runner writes its own messages to its log; its command gets the pipe."""
    if pipe is not None and not spec.lasting:
        return pipe.open_to_write()
    return os.open(spec.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def _environment(spec: ProcessSpec, run: str, context: SpawnContext, pipe: OutputPipe | None) -> dict[str, str]:
    confined, environ, home = spec.confinement, context.environment, context.home
    inherited = dict(environ) if confined is None else launcher.clean_environment(environ)
    return {
        **inherited,
        **(launcher.home_environment(confined) if confined is not None else {}),
        **spec.varying,
        **spec.env,
        **spec.secrets,
        "MIZZEN_DATA_DIR": str(home.data_dir),
        "MIZZEN_RUN_DIR": str(home.run),
        "MIZZEN_PROCESS_KEY": spec.key,
        "MIZZEN_PROCESS_RUN": run,
        **(_runner_environment(context, pipe) if spec.lasting else {}),
    }


def _runner_environment(context: SpawnContext, pipe: OutputPipe | None) -> dict[str, str]:
    """What a runner needs to hold its command as the supervisor holds its processes."""
    return {
        "MIZZEN_CGROUPS": context.containment.hierarchies.to_text(),
        "MIZZEN_LOG_BYTES": str(context.logs.bytes),
        **({"MIZZEN_OUTPUT_PIPE": str(pipe.path)} if pipe is not None else {}),
    }


def _setup(spec: ProcessSpec, enclosure: Enclosure) -> Callable[[], None] | None:
    """The group first: after that, its files are out of reach."""
    confine = launcher.child_setup(spec.confinement, machine.detect()) if spec.confinement is not None else None
    if not enclosure.needs_setup:
        return confine

    def set_up() -> None:
        enclosure.enter()
        if enclosure.namespace != "none" and spec.memory is not None:
            procfs.limit_data(0, spec.memory)
        if confine is not None:
            confine()

    return set_up
