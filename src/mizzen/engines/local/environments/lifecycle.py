"""The lifecycle of environments: whether the one that a workload wants is complete, and how far its build is.

    absent ──ordered──> building ──stamp──> complete ──unused for long──> (removed)
                            │ fails, or is stopped
                            v
                         failed ──after a while──> building

Each environment has one build at a time, and the number of concurrent builds is limited. A build that no workload wants
any more is stopped.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mizzen.blobs.disk_room import Room
from mizzen.blobs.fs.remove_tree import remove_tree
from mizzen.engines.local import confinements
from mizzen.engines.local.confinements import DEFAULT_CONFINEMENT, ConfinementPolicy
from mizzen.engines.local.environments import runtime_bundle
from mizzen.engines.local.environments.spec import (
    PREFIX,
    EnvironmentPaths,
    EnvironmentStamp,
    Recipe,
    last_used,
    list_removing,
    read_stamp,
    root_of,
)
from mizzen.engines.local.process_specs import BuiltEnvironment, Obstacle
from mizzen.errors import NoRoom
from mizzen.kinds.workload import Environment
from mizzen.supervisor.client import Client, SupervisorGone
from mizzen.supervisor.data_dir import Home, read_json, write_json
from mizzen.supervisor.protocol import ProcessSpec, ProcessView, State

MAX_BUILDS = 2
"""Concurrent builds. Each of them uses the network, the disk and all cores."""
BUILDING = "BuildingEnvironment"
FAILED = "EnvironmentFailed"
NO_ROOM = "NoRoom"
_MODULE = "mizzen.engines.local.environments.build"
_USE_INTERVAL = 600.0


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """How environments are built."""

    tool: str = "auto"
    """One of `installers.NAMES`."""
    wheels: str = ""
    """A folder of wheels to install from; empty: the index that uv or pip is configured with."""
    seconds: float = 1800.0
    """The timeout of one build: others wait for its slot."""


class Environments:
    def __init__(
        self,
        home: Home,
        supervisor: Callable[[], AbstractAsyncContextManager[Client]],
        *,
        python: str,
        build_settings: BuildSettings,
        room: Room | None = None,
        confining: ConfinementPolicy = DEFAULT_CONFINEMENT,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`python` is our own interpreter, which runs the builder. `room` is checked before each build. `confining`:
        how the code of packages is confined while they are built."""
        self._home = home
        self._supervisor = supervisor
        self._python = python
        self._build_settings = build_settings
        self._room = room
        self._confining = confining
        self._now = now
        self._turn = asyncio.Lock()
        self._wanted: dict[str, str] = {}
        """By workload, the key of the environment that it wants."""
        self._settled: set[str] = set()
        """Keys of environments whose builders were removed from the supervisor."""
        self._parts: Path | None = None
        self._removing: set[asyncio.Task[None]] = set()

    async def ensure(self, uid: str, wanted: Environment) -> BuiltEnvironment | Obstacle:
        """The environment that a workload wants from now on, built if necessary; or the obstacle to it."""
        recipe = Recipe.of(wanted)
        paths = self.paths_of(recipe.key)
        async with self._turn:
            before, self._wanted[uid] = self._wanted.get(uid), recipe.key
            if before is not None and before != recipe.key:
                with suppress(SupervisorGone):  # as in release
                    await self._abandon(before)
            whole = _read_stamp(paths)
            if whole is None:
                try:
                    obstacle = await self._build(paths, recipe)
                except SupervisorGone:
                    return Obstacle("waiting", "waiting for the supervisor")
                whole = _read_stamp(paths) if obstacle is None else None
                if whole is None:
                    return obstacle or Obstacle("waiting", "its environment is gone and is being rebuilt", BUILDING)
            await self._forget_builder(paths)
            _note_use(paths, self._now())
            return await self._to_built(paths, whole)

    async def release(self, uid: str) -> None:
        """Forget a deleted workload. A build for it alone is stopped; a complete environment stays for a while."""
        async with self._turn:
            key = self._wanted.pop(uid, None)
            if key is not None:
                with suppress(SupervisorGone):  # `clear` stops the build later
                    await self._abandon(key)

    async def clear(self, unused: float) -> list[str]:
        """Remove environments unused for so many seconds, and leftovers of unwanted builds. Returns the keys.

        Call this only when every workload has been applied once.
        """
        async with self._turn:
            root = root_of(self._home.data_dir)
            try:
                async with self._supervisor() as client:
                    for view in await client.list(PREFIX):
                        if view.key.removeprefix(PREFIX) not in self._wanted.values():
                            await client.remove(view.key)
                    busy = {view.key.removeprefix(PREFIX) for view in await client.list(PREFIX)}
            except SupervisorGone:
                return []
            keep = busy | set(self._wanted.values())
            gone = await asyncio.to_thread(_clear, root, self._home, keep, self._now() - unused)
        await asyncio.to_thread(_remove, list_removing(root))
        return gone

    def paths_of(self, key: str) -> EnvironmentPaths:
        return EnvironmentPaths(root_of(self._home.data_dir), key)

    def log_path(self, wanted: Environment) -> Path:
        """The output of its build."""
        return log_of(self._home, Recipe.of(wanted).key)

    async def _build(self, paths: EnvironmentPaths, recipe: Recipe) -> Obstacle | None:
        """Start or follow its build. None: it is complete by now."""
        async with self._supervisor() as client:
            views = {view.key: view for view in await client.list(PREFIX)}
            mine = views.pop(paths.process, None)
            if mine is not None and mine.state in (State.RUNNING, State.WAITING, State.STOPPING):
                if mine.state is not State.STOPPING and self._is_overdue(paths):
                    _note_failure(
                        paths, f"its build took longer than {self._build_settings.seconds / 60:g} minutes", self._now()
                    )
                    await client.remove(paths.process)
                return Obstacle("waiting", _describe_progress(paths, self._now()), BUILDING)
            if mine is not None:
                await client.remove(paths.process)
                if _read_stamp(paths) is not None:
                    return None
                if mine.exit_code != 0:  # otherwise it was complete once and is no longer
                    _note_end(paths, mine, self._now())
            failure: Any = read_json(paths.failure)
            if failure is not None and self._now() < failure["time"] + retry_after(failure["attempt"]):
                self._remove(paths)  # leftovers of a stopped builder: it may have failed for lack of disk space
                return Obstacle("waiting", _describe_failure(failure), FAILED)
            running = sum(view.state is State.RUNNING for view in views.values())
            if running >= MAX_BUILDS:
                return Obstacle("waiting", f"its environment waits for {running} other builds", BUILDING)
            try:
                if self._room is not None:
                    self._room.for_files()
            except NoRoom as error:
                return Obstacle("waiting", f"its environment is not built: {error.message}", NO_ROOM)
            attempt = failure["attempt"] + 1 if failure is not None else 0
            self._settled.discard(paths.key)
            order = {**asdict(recipe), **asdict(self._build_settings), "attempt": attempt, "time": self._now()}
            confinement = confinements.of_build(self._confining, self._home, self._build_settings.wheels)
            order |= {"confinement": confinement.to_json()} if confinement is not None else {}
            await asyncio.to_thread(_order, paths, order)
            await client.apply(self._build_process(paths))
            return Obstacle("waiting", _describe_progress(paths, self._now()), BUILDING)

    def _remove(self, paths: EnvironmentPaths) -> None:
        """Remove it for all readers at once. Its files are deleted in the background, without holding the lock."""
        going = paths.set_aside()
        if going is not None:
            task = asyncio.create_task(asyncio.to_thread(_remove, [going]))
            self._removing.add(task)
            task.add_done_callback(self._removing.discard)

    def _is_overdue(self, paths: EnvironmentPaths) -> bool:
        order: Any = read_json(paths.order) or {}
        return bool(self._now() > order.get("time", self._now()) + self._build_settings.seconds)

    def _build_process(self, paths: EnvironmentPaths) -> ProcessSpec:
        return ProcessSpec(
            key=paths.process,
            argv=(self._python, "-P", "-m", _MODULE, str(paths.root), paths.key),
            log=str(log_of(self._home, paths.key)),
            cwd=str(paths.root),
            restart="never",
            grace=2.0,
        )

    async def _forget_builder(self, paths: EnvironmentPaths) -> None:
        """Once per complete environment: the supervisor need not remember its builder."""
        if paths.key not in self._settled:
            with suppress(SupervisorGone):
                async with self._supervisor() as client:
                    views = await client.list(paths.process)
                    if any(view.state is State.RUNNING for view in views):  # it is still writing its last output
                        return
                    await client.remove(paths.process)
                self._settled.add(paths.key)

    async def _abandon(self, key: str) -> None:
        """Stop a build that no workload wants. A later request starts at once: the cause of a failure may be fixed."""
        if key in self._wanted.values():
            return
        paths = self.paths_of(key)
        async with self._supervisor() as client:
            await client.remove(paths.process)
        paths.failure.unlink(missing_ok=True)

    async def _to_built(self, paths: EnvironmentPaths, whole: EnvironmentStamp) -> BuiltEnvironment:
        if self._parts is None or not self._parts.exists():
            self._parts = await asyncio.to_thread(runtime_bundle.lay_out_runtime, self._home.data_dir)
        isolated = tuple(int(part) for part in whole.python.split(".")[:2]) >= (3, 11)
        return BuiltEnvironment(paths.key, str(paths.python), str(self._parts), safe_path=isolated)


def retry_after(attempt: int) -> float:
    """Seconds until a failed build is retried: 10, then doubling up to an hour."""
    return float(min(10 * 2 ** min(attempt, 9), 3600))


def log_of(home: Home, key: str) -> Path:
    return home.logs / f"{PREFIX}{key}.log"


def _read_stamp(paths: EnvironmentPaths) -> EnvironmentStamp | None:
    """The stamp of a complete environment. None also when its interpreter no longer exists."""
    found = read_stamp(paths)
    return found if found is not None and os.access(paths.python, os.X_OK) else None


def _note_use(paths: EnvironmentPaths, now: float) -> None:
    """Follows no link: packages could have put one there."""
    try:
        if now - paths.used.lstat().st_mtime < _USE_INTERVAL:
            return
    except FileNotFoundError:
        os.close(os.open(paths.used, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    os.utime(paths.used, (now, now), follow_symlinks=False)


def _order(paths: EnvironmentPaths, order: dict[str, Any]) -> None:
    paths.root.mkdir(parents=True, exist_ok=True)
    paths.step.unlink(missing_ok=True)
    write_json(paths.order, order)
    paths.failure.unlink(missing_ok=True)


def _note_end(paths: EnvironmentPaths, view: ProcessView, now: float) -> None:
    """Record the failure of a builder that ended without a message."""
    if read_json(paths.failure) is None:
        code = "" if view.exit_code is None else f" with code {view.exit_code}"
        _note_failure(paths, f"its builder ended unexpectedly{code}", now)


def _note_failure(paths: EnvironmentPaths, message: str, now: float) -> None:
    order: Any = read_json(paths.order) or {}
    write_json(paths.failure, {"message": message, "time": now, "attempt": order.get("attempt", 0)})


def _describe_progress(paths: EnvironmentPaths, now: float) -> str:
    progress: Any = read_json(paths.step) or {}
    step = progress.get("step", "starting")
    seconds = max(0.0, now - progress.get("began", now))
    # Rounded: each change of the message is a write to the store.
    rounded = int(seconds // 5 * 5) if seconds < 60 else int(seconds // 15 * 15)
    return f"building its environment: {step}" + (f", {rounded} s" if rounded else "")


def _describe_failure(failure: dict[str, Any]) -> str:
    again = datetime.fromtimestamp(failure["time"] + retry_after(failure["attempt"]), UTC)
    return f"its environment cannot be built: {failure['message']}; next attempt at {again:%H:%M:%S} UTC"


def _remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        with suppress(OSError):  # tried again at the next start
            remove_tree(folder)


def _clear(root: Path, home: Home, keep: set[str], before: float) -> list[str]:
    """Set unused folders aside, to be removed. Returns their keys."""
    keys = {path.name.partition(".")[0] for path in root.glob("[!.]*")} - keep
    gone = []
    for key in sorted(keys):
        paths = EnvironmentPaths(root, key)
        if os.path.lexists(paths.stamp) and last_used(paths) > before:
            continue
        paths.set_aside()
        for file in (paths.order, paths.step, paths.failure):
            file.unlink(missing_ok=True)
        gone.append(key)
    # Logs are kept for a while: they explain a failed build even after its workload was deleted.
    for log in home.logs.glob(f"{PREFIX}*.log*"):
        with suppress(OSError):  # the supervisor removes old logs, too; anything that is not a file is not ours
            if log.name.partition(".")[0].removeprefix(PREFIX) not in keep and log.stat().st_mtime < before:
                log.unlink(missing_ok=True)
    return gone
