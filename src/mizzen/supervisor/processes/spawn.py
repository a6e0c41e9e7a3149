"""The start of one process: its environment, its output, its limits and its confinement."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from mizzen.confinement import launcher, machine
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.processes import procfs
from mizzen.supervisor.protocol import ProcessSpec


def spawn(spec: ProcessSpec, run: str, home: Home, environ: Mapping[str, str], listeners: Mapping[str, int]) -> int:
    """Returns the pid. `run` is the id of this start. Raises OSError, TypeError, ValueError."""
    if spec.termination_log:
        Path(spec.termination_log).unlink(missing_ok=True)
    environment = _environment(spec, run, home, environ)
    if spec.listeners:
        environment["MIZZEN_LISTENERS"] = json.dumps(dict(listeners))
    output = os.open(spec.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        child = subprocess.Popen(
            spec.argv,
            env=environment,
            cwd=spec.cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=tuple(listeners.values()) if spec.listeners else (),
            preexec_fn=_setup(spec),  # noqa: PLW1509 - it makes system calls only
        )
    except subprocess.SubprocessError as error:
        raise OSError("it cannot be confined; its log says why") from error
    finally:
        os.close(output)
    if spec.memory is not None:
        procfs.limit_data(child.pid, spec.memory)
    child.returncode = 0  # `Exits` reaps it; this keeps Popen from also waiting for it
    return child.pid


def _environment(spec: ProcessSpec, run: str, home: Home, environ: Mapping[str, str]) -> dict[str, str]:
    confined = spec.confinement
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
    }


def _setup(spec: ProcessSpec) -> Callable[[], None] | None:
    if spec.confinement is None:
        return None
    return launcher.child_setup(spec.confinement, machine.detect())
