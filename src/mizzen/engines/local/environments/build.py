"""The process that builds one environment: `python -m mizzen.engines.local.environments.build <root> <key>`.

A process of its own under the supervisor, so that it outlives the plane that ordered it, and its output is a file. What
it makes counts once the stamp is there, which it writes last: whoever finds none begins anew.
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
from mizzen.engines.local.environments.spec import EnvironmentPlace, Whole
from mizzen.supervisor.data_dir import read_json, write_json

_REMEMBERED = 40
_TRIED = "import sys, numpy; print(f'Python {sys.version.split()[0]} with numpy {numpy.__version__}')"


class Failed(Exception):
    """It cannot be built; the message says why."""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    root, key = arguments
    place = EnvironmentPlace(Path(root), key)
    order: Any = read_json(place.order)
    began = time.time()
    try:
        whole = Builder(place, order, environ).build()
    except (Failed, interpreters.NotHere, installers.NoTool, OSError) as error:
        _say(f"gave up after {time.time() - began:.1f} s" + ("" if isinstance(error, Failed) else f": {error}"))
        place.remove()  # it may be for want of room that it failed
        write_json(place.failure, {"message": str(error), "time": time.time(), "attempt": order.get("attempt", 0)})
        return 1
    finally:
        place.step.unlink(missing_ok=True)
    _say(f"done: {len(whole.packages)} packages, {whole.size / 1e6:.0f} MB, {whole.seconds:.1f} s")
    return 0


class Builder:
    def __init__(self, place: EnvironmentPlace, order: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self._place = place
        self._order = order
        self._environ = installers.environment(environ)
        self._began = time.time()

    def build(self) -> Whole:
        place, order = self._place, self._order
        _say(f"environment {place.key}: Python {order['python']}, {' '.join(order['requirements'])}")
        self._tell("looking for its Python")
        python = interpreters.find(order["python"], self._environ)
        tool = installers.chosen(order["tool"], self._environ)
        _say(f"with {tool} and Python {python.version} at {python.path}")
        place.remove()  # what a build left that was ended
        self._tell("resolving")
        with tempfile.TemporaryDirectory(prefix="mizzen-env-") as folder:
            listed = Path(folder) / "requirements.txt"
            listed.write_text("".join(f"{line}\n" for line in order["requirements"]))
            wheels, known = order["wheels"], self._environ
            for command in installers.commands(tool, place, python.path, listed, wheels=wheels, environ=known):
                self._run(command)
            self._tell("trying it")
            self._run([str(place.python), "-I", "-c", _TRIED])
        return self._finished(python.version, tool)

    def _run(self, command: Sequence[str]) -> None:
        """Raises Failed with the last it printed."""
        last: deque[str] = deque(maxlen=_REMEMBERED)
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
                _say(line.rstrip())
                last.append(line)
                step = build_output.step(line)
                if step is not None:
                    self._tell(step)
        if child.returncode:
            raise Failed(build_output.reason(last))

    def _tell(self, step: str) -> None:
        write_json(self._place.step, {"step": step, "began": self._began})

    def _finished(self, version: str, tool: str) -> Whole:
        place = self._place
        packages = sorted(
            "==".join(folder.name.removesuffix(".dist-info").rsplit("-", 1))
            for folder in place.folder.glob("lib/python*/site-packages/*.dist-info")
        )
        size = sum(
            os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(place.folder) for name in names
        )
        whole = Whole(version, tool, tuple(packages), size, round(time.time() - self._began, 1))
        os.sync()  # the stamp must not be there after a power loss when the files are not
        write_json(place.stamp, asdict(whole))
        return whole


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - its output is the log


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
