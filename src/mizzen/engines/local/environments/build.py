"""The process that builds one environment: `python -m mizzen.engines.local.environments.build <root> <key>`.

It runs as its own process under the supervisor, so that it outlives the plane that ordered it, and its output goes to a
file. The environment is complete once its stamp exists, which is written last; without one, the build starts over.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mizzen.engines.local.environments import build_output, installers, interpreters
from mizzen.engines.local.environments.spec import EnvironmentPaths, EnvironmentStamp
from mizzen.supervisor.data_dir import read_json, write_json

_LINES_KEPT = 40
_CHECK = "import sys, numpy; print(f'Python {sys.version.split()[0]} with numpy {numpy.__version__}')"


class BuildFailed(Exception):
    """The environment cannot be built; the message says why."""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    root, key = arguments
    paths = EnvironmentPaths(Path(root), key)
    order: Any = read_json(paths.order)
    began = time.time()
    try:
        whole = Builder(paths, order, environ).build()
    except (BuildFailed, interpreters.NoInterpreter, installers.NoTool, OSError) as error:
        _print(f"gave up after {time.time() - began:.1f} s" + ("" if isinstance(error, BuildFailed) else f": {error}"))
        paths.remove()  # it may have failed for lack of disk space
        write_json(paths.failure, {"message": str(error), "time": time.time(), "attempt": order.get("attempt", 0)})
        return 1
    finally:
        paths.step.unlink(missing_ok=True)
    _print(f"done: {len(whole.packages)} packages, {whole.size / 1e6:.0f} MB, {whole.seconds:.1f} s")
    return 0


class Builder:
    def __init__(self, paths: EnvironmentPaths, order: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self._place = paths
        self._order = order
        self._environ = installers.filter_environment(environ)
        self._began = time.time()

    def build(self) -> EnvironmentStamp:
        paths, order = self._place, self._order
        _print(f"environment {paths.key}: Python {order['python']}, {' '.join(order['requirements'])}")
        self._write_step("looking for a Python interpreter")
        python = interpreters.find(order["python"], self._environ)
        tool = installers.choose_tool(order["tool"], self._environ)
        _print(f"with {tool} and Python {python.version} at {python.path}")
        paths.remove()  # leftovers of a build that was stopped
        self._write_step("resolving")
        with tempfile.TemporaryDirectory(prefix="mizzen-env-") as folder:
            listed = Path(folder) / "requirements.txt"
            listed.write_text("".join(f"{line}\n" for line in order["requirements"]))
            wheels, known = order["wheels"], self._environ
            for command in installers.build_commands(tool, paths, python.path, listed, wheels=wheels, environ=known):
                self._run(command)
            self._write_step("checking it")
            self._run([str(paths.python), "-I", "-c", _CHECK])
        return self._write_stamp(python.version, tool)

    def _run(self, command: Sequence[str]) -> None:
        """Raises BuildFailed with the last lines of the output."""
        last: deque[str] = deque(maxlen=_LINES_KEPT)
        with subprocess.Popen(
            command,
            env=self._environ,
            cwd=self._place.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                _print(line.rstrip())
                last.append(line)
                step = build_output.parse_step(line)
                if step is not None:
                    self._write_step(step)
        if child.returncode:
            raise BuildFailed(build_output.explain_failure(last))

    def _write_step(self, step: str) -> None:
        write_json(self._place.step, {"step": step, "began": self._began})

    def _write_stamp(self, version: str, tool: str) -> EnvironmentStamp:
        paths = self._place
        packages = sorted(
            "==".join(folder.name.removesuffix(".dist-info").rsplit("-", 1))
            for folder in paths.folder.glob("lib/python*/site-packages/*.dist-info")
        )
        size = sum(
            os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(paths.folder) for name in names
        )
        whole = EnvironmentStamp(version, tool, tuple(packages), size, round(time.time() - self._began, 1))
        os.sync()  # after a power loss, the stamp must not exist without the files
        write_json(paths.stamp, asdict(whole))
        return whole


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - its output is the log


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
