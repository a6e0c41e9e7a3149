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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mizzen.blobs.fs.remove_tree import remove_tree
from mizzen.confinement import machine
from mizzen.confinement.launcher import child_setup
from mizzen.confinement.spec import Confinement
from mizzen.engines.local.environments import build_output, installers, interpreters, runtime_bundle
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
    except (BuildFailed, interpreters.NoInterpreter, installers.NoTool, OSError, subprocess.SubprocessError) as error:
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
        self._run(installers.create_command(tool, paths, python.path, self._environ))
        base = str(Path(python.path).resolve())
        with _temporary_folder(paths) as folder:
            confined = self._confinement(base, folder)
            self._install(tool, folder, confined)
            self._write_step("compiling it")
            # Confined, because links in the environment could lead anywhere, also into the runtime's modules.
            self._run(installers.compile_command(base, paths.folder), confined, cache=folder)
            self._run(installers.compile_command(base, self._lay_out_runtime()))
            self._write_step("checking it")
            self._run([str(paths.python), "-I", "-c", _CHECK], confined, cache=folder)
        return self._write_stamp(python.version, tool)

    def _install(self, tool: str, folder: Path, confined: Confinement | None) -> None:
        """Packages that have to be built are built in confinement: their code runs."""
        listed = folder / "requirements.txt"
        listed.write_text("".join(f"{line}\n" for line in self._order["requirements"]))
        wheels = self._order["wheels"]

        def command(*, build: bool) -> list[str]:
            return installers.install_command(
                tool, self._place, listed, wheels=wheels, environ=self._environ, build=build
            )

        if confined is not None:
            try:
                self._run(command(build=False))
            except BuildFailed:
                _print("not from wheels alone; trying to build packages")
            else:
                return
        self._run(command(build=True), confined, cache=folder)

    def _confinement(self, base: str, folder: Path) -> Confinement | None:
        """For code of packages. `base`: the interpreter; `folder`: for temporary files."""
        found = Confinement.from_json(self._order.get("confinement"))
        if found is None:
            return None
        tools = (str(Path(base).parents[1]), *installers.settings_files(self._environ))
        return replace(found, read=(*found.read, *tools), write=(*found.write, str(self._place.folder), str(folder)))

    def _lay_out_runtime(self) -> Path:
        return runtime_bundle.lay_out_runtime(self._place.root.parent)

    def _run(self, command: Sequence[str], confined: Confinement | None = None, cache: Path | None = None) -> None:
        """`cache`: a folder for its downloads and temporary files. Raises BuildFailed with the end of the output."""
        last: deque[str] = deque(maxlen=_LINES_KEPT)
        with subprocess.Popen(
            command,
            env={**self._environ, **(installers.private_cache(cache) if cache is not None else {})},
            preexec_fn=child_setup(confined, machine.detect()) if confined is not None else None,  # noqa: PLW1509
            cwd=cache or self._place.root,
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
        # Written elsewhere: packages could have put a link at the name of a temporary file.
        write_json(paths.next_stamp, asdict(whole))
        paths.next_stamp.replace(paths.stamp)
        return whole


@contextmanager
def _temporary_folder(paths: EnvironmentPaths) -> Iterator[Path]:
    """Removed in the end, whatever packages did to it."""
    folder = Path(tempfile.mkdtemp(prefix=f".{paths.key}.", dir=paths.root))
    try:
        yield folder
    finally:
        with suppress(OSError):
            remove_tree(folder)


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - its output is the log


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
