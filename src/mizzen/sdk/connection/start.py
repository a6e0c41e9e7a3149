"""Starting a plane, or connecting to a running one; and the public names of the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from mizzen import errors
from mizzen.sdk.api.session import DEFAULT_NAMESPACE
from mizzen.sdk.connection import locate
from mizzen.sdk.connection.tether import KeptTether
from mizzen.sdk.connection.warnings import MizzenWarning
from mizzen.sdk.handles.graph import Graph
from mizzen.sdk.handles.job import Job
from mizzen.sdk.handles.model import Model
from mizzen.sdk.handles.monitor import Monitor
from mizzen.sdk.sync import Plane
from mizzen.supervisor.client import SupervisorGone
from mizzen.supervisor.data_dir import Home

__all__ = ["Graph", "Job", "MizzenWarning", "Model", "Monitor", "Plane", "connect", "start"]

_START_SETTINGS: Final = ("host", "port", "inference_port", "grpc_port", "tls_port", "inference_tls", "gateways")


def start(dir: str | Path | None = None, *, detach: bool = False, **settings: Any) -> Plane:  # noqa: A002
    """Start a plane in the data dir `dir` (default .mizzen) and connect to it.

    It ends with this process, unless `detach`. If a plane already runs there, this only connects to it. Settings are
    the flags of `mizzen up`: host, port, inference_port, grpc_port, tls_port, inference_tls, gateways; port=0 picks a
    free one.
    """
    unknown = [name for name in settings if name not in _START_SETTINGS]
    if unknown:
        raise errors.Invalid(
            f"'{unknown[0]}' is not a valid setting", hint="settings are " + ", ".join(_START_SETTINGS)
        )
    data_dir = locate.data_dir_of(dir).absolute()
    if locate.running(data_dir):
        return Plane(locate.in_data_dir(data_dir))
    flags = [
        word
        for name, value in settings.items()
        if value is not False
        for word in (f"--{name.replace('_', '-')}", *(() if value is True else (str(value),)))
    ]
    # -P: the current folder must not shadow modules of the plane.
    command = [sys.executable, "-P", "-m", "mizzen.cli.main", "up", "--detach", "--data-dir", str(data_dir), *flags]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise _start_failure(done.stderr)
    try:
        tether = None if detach else KeptTether(Home.of(data_dir))
    except SupervisorGone as error:
        raise errors.Unavailable("the plane stopped right after it started", hint=f"see {data_dir / 'logs'}") from error
    return Plane(locate.in_data_dir(data_dir), tether)


def connect(url: str | None = None, token: str | None = None, *, namespace: str = DEFAULT_NAMESPACE) -> Plane:
    """Connect to a running plane: at `url`, else at MIZZEN_URL, else on this machine by its data dir."""
    return Plane(locate.find(url, token), namespace=namespace)


def _start_failure(stderr: str) -> errors.MizzenError:
    """Turn the output of `mizzen up` into the error it reports."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    reported = {key: text for key, _, text in (line.partition(": ") for line in lines) if key in ("error", "hint")}
    return errors.Unavailable(
        reported.get("error") or "\n".join(lines) or "the plane did not start", hint=reported.get("hint", "")
    )
