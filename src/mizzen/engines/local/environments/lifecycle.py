"""For the engine: is the environment that a workload wants there, and if not, how far is it?

    absent ──ordered──> building ──stamp──> whole ──unused for long──> (gone)
                            │ gives up, or is ended
                            v
                         failed ──after a while──> building

One build at a time of each, some at once of all; one that nobody wants any more is ended.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mizzen.blobs.disk_room import Room
from mizzen.engines.local.environments import runtime_bundle
from mizzen.engines.local.environments.spec import (
    PREFIX,
    EnvironmentPlace,
    Recipe,
    Whole,
    last_used,
    root_of,
    still_going,
)
from mizzen.engines.local.process_specs import Built, Obstacle
from mizzen.errors import NoRoom
from mizzen.kinds.workload import Environment
from mizzen.supervisor.client import Client, SupervisorGone
from mizzen.supervisor.data_dir import Home, read_json, write_json
from mizzen.supervisor.protocol import ProcessSpec, ProcessView, State

AT_ONCE = 2
"""Builds. Each of them uses the network, the disk and all cores."""
BUILDING = "BuildingEnvironment"
FAILED = "EnvironmentFailed"
NO_ROOM = "NoRoom"
_MODULE = "mizzen.engines.local.environments.build"
_NOTED_EVERY = 600.0


@dataclass(frozen=True, slots=True)
class Making:
    """How environments are made here."""

    tool: str = "auto"
    """One of `tools.NAMES`."""
    wheels: str = ""
    """A folder of wheels that packages are taken from; empty: the index that uv or pip are set to."""
    seconds: float = 1800.0
    """That one build may take: whatever it waits for, others wait for its place."""


class Environments:
    def __init__(
        self,
        home: Home,
        supervisor: Callable[[], AbstractAsyncContextManager[Client]],
        *,
        python: str,
        making: Making,
        room: Room | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`python` is our own interpreter, which runs the builder. `room`: asked before each build."""
        self._home = home
        self._supervisor = supervisor
        self._python = python
        self._making = making
        self._room = room
        self._now = now
        self._turn = asyncio.Lock()
        self._wanted: dict[str, str] = {}
        """By workload, the key of what it wants."""
        self._settled: set[str] = set()
        """Keys of those whose builders are forgotten."""
        self._parts: Path | None = None
        self._removing: set[asyncio.Task[None]] = set()

    async def of(self, uid: str, wanted: Environment) -> Built | Obstacle:
        """What a workload runs in, from now on; or why it cannot yet."""
        recipe = Recipe.of(wanted)
        place = self.place(recipe.key)
        async with self._turn:
            before, self._wanted[uid] = self._wanted.get(uid), recipe.key
            if before is not None and before != recipe.key:
                with suppress(SupervisorGone):  # as in release
                    await self._abandon(before)
            whole = _whole(place)
            if whole is None:
                try:
                    obstacle = await self._under_way(place, recipe)
                except SupervisorGone:
                    return Obstacle("waiting", "waiting for the supervisor")
                whole = _whole(place) if obstacle is None else None
                if whole is None:
                    return obstacle or Obstacle("waiting", "its environment is gone; it is built anew", BUILDING)
            await self._settle(place)
            _note_use(place, self._now())
            return await self._built(place, whole)

    async def release(self, uid: str) -> None:
        """A workload is gone. What is being built for it alone is not built any more; what is there stays a while."""
        async with self._turn:
            key = self._wanted.pop(uid, None)
            if key is not None:
                with suppress(SupervisorGone):  # it is looked for again when environments are cleared
                    await self._abandon(key)

    async def clear(self, unused: float) -> list[str]:
        """Remove those that nobody has wanted for so many seconds, and what builds nobody wants have left. The keys.

        Only call it when every workload there is has been applied once.
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
        await asyncio.to_thread(_remove, still_going(root))
        return gone

    def place(self, key: str) -> EnvironmentPlace:
        return EnvironmentPlace(root_of(self._home.data_dir), key)

    def log(self, wanted: Environment) -> Path:
        """What was printed while it was built."""
        return log_of(self._home, Recipe.of(wanted).key)

    async def _under_way(self, place: EnvironmentPlace, recipe: Recipe) -> Obstacle | None:
        """None: it is whole by now."""
        async with self._supervisor() as client:
            views = {view.key: view for view in await client.list(PREFIX)}
            mine = views.pop(place.process, None)
            if mine is not None and mine.state in (State.RUNNING, State.WAITING, State.STOPPING):
                if mine.state is not State.STOPPING and self._overdue(place):
                    _note_failure(place, f"it took longer than {self._making.seconds / 60:g} minutes", self._now())
                    await client.remove(place.process)
                return Obstacle("waiting", _progress(place, self._now()), BUILDING)
            if mine is not None:
                await client.remove(place.process)
                if _whole(place) is not None:
                    return None
                if mine.exit_code != 0:  # else it was whole once, and is no more
                    _note_end(place, mine, self._now())
            failure: Any = read_json(place.failure)
            if failure is not None and self._now() < failure["time"] + retry_after(failure["attempt"]):
                self._remove(place)  # what a builder left that was ended: it may be for want of room
                return Obstacle("waiting", _failed(failure), FAILED)
            running = sum(view.state is State.RUNNING for view in views.values())
            if running >= AT_ONCE:
                return Obstacle("waiting", f"its environment is built after {running} others", BUILDING)
            try:
                if self._room is not None:
                    self._room.for_files()
            except NoRoom as error:
                return Obstacle("waiting", f"its environment is not built: {error.message}", NO_ROOM)
            attempt = failure["attempt"] + 1 if failure is not None else 0
            self._settled.discard(place.key)
            order = {**asdict(recipe), **asdict(self._making), "attempt": attempt, "time": self._now()}
            await asyncio.to_thread(_order, place, order)
            await client.apply(self._process(place))
            return Obstacle("waiting", _progress(place, self._now()), BUILDING)

    def _remove(self, place: EnvironmentPlace) -> None:
        """At once, to those who look for it. Its files may take long: nobody whose turn it is waits for them."""
        going = place.set_aside()
        if going is not None:
            task = asyncio.create_task(asyncio.to_thread(_remove, [going]))
            self._removing.add(task)
            task.add_done_callback(self._removing.discard)

    def _overdue(self, place: EnvironmentPlace) -> bool:
        order: Any = read_json(place.order) or {}
        return bool(self._now() > order.get("time", self._now()) + self._making.seconds)

    def _process(self, place: EnvironmentPlace) -> ProcessSpec:
        return ProcessSpec(
            key=place.process,
            argv=(self._python, "-P", "-m", _MODULE, str(place.root), place.key),
            log=str(log_of(self._home, place.key)),
            cwd=str(place.root),
            restart="never",
            grace=2.0,
        )

    async def _settle(self, place: EnvironmentPlace) -> None:
        """Once for each that is whole: the supervisor need not remember who built it."""
        if place.key not in self._settled:
            with suppress(SupervisorGone):
                async with self._supervisor() as client:
                    views = await client.list(place.process)
                    if any(view.state is State.RUNNING for view in views):  # it says its last words
                        return
                    await client.remove(place.process)
                self._settled.add(place.key)

    async def _abandon(self, key: str) -> None:
        """If nobody else wants it. Whoever wants it again begins at once: they may have changed what was wrong."""
        if key in self._wanted.values():
            return
        place = self.place(key)
        async with self._supervisor() as client:
            await client.remove(place.process)
        place.failure.unlink(missing_ok=True)

    async def _built(self, place: EnvironmentPlace, whole: Whole) -> Built:
        if self._parts is None or not self._parts.exists():
            self._parts = await asyncio.to_thread(runtime_bundle.laid_out, self._home.data_dir)
        isolated = tuple(int(part) for part in whole.python.split(".")[:2]) >= (3, 11)
        return Built(place.key, str(place.python), str(self._parts), safe_path=isolated)


def retry_after(attempt: int) -> float:
    """Seconds after which a build that failed is tried again: 10, then ever more rarely, up to an hour."""
    return float(min(10 * 2 ** min(attempt, 9), 3600))


def log_of(home: Home, key: str) -> Path:
    return home.logs / f"{PREFIX}{key}.log"


def _whole(place: EnvironmentPlace) -> Whole | None:
    """None also when the interpreter it was made with is there no more."""
    found: Any = read_json(place.stamp)
    return Whole.of(found) if found is not None and os.access(place.python, os.X_OK) else None


def _note_use(place: EnvironmentPlace, now: float) -> None:
    try:
        if now - place.used.stat().st_mtime < _NOTED_EVERY:
            return
    except FileNotFoundError:
        place.used.touch(mode=0o600)
    os.utime(place.used, (now, now))


def _order(place: EnvironmentPlace, order: dict[str, Any]) -> None:
    place.root.mkdir(parents=True, exist_ok=True)
    place.step.unlink(missing_ok=True)
    write_json(place.order, order)
    place.failure.unlink(missing_ok=True)


def _note_end(place: EnvironmentPlace, view: ProcessView, now: float) -> None:
    """Of a builder that did not come to say why it ended."""
    if read_json(place.failure) is None:
        code = "" if view.exit_code is None else f" with code {view.exit_code}"
        _note_failure(place, f"what built it ended by itself{code}", now)


def _note_failure(place: EnvironmentPlace, message: str, now: float) -> None:
    order: Any = read_json(place.order) or {}
    write_json(place.failure, {"message": message, "time": now, "attempt": order.get("attempt", 0)})


def _progress(place: EnvironmentPlace, now: float) -> str:
    said: Any = read_json(place.step) or {}
    step = said.get("step", "starting")
    seconds = max(0.0, now - said.get("began", now))
    # Not every second: each change is written down.
    rounded = int(seconds // 5 * 5) if seconds < 60 else int(seconds // 15 * 15)
    return f"building its environment: {step}" + (f", {rounded} s" if rounded else "")


def _failed(failure: dict[str, Any]) -> str:
    again = datetime.fromtimestamp(failure["time"] + retry_after(failure["attempt"]), UTC)
    return f"its environment cannot be built: {failure['message']}; tried again at {again:%H:%M:%S} UTC"


def _remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _clear(root: Path, home: Home, keep: set[str], before: float) -> list[str]:
    """Their folders are set aside, to be removed."""
    keys = {path.name.partition(".")[0] for path in root.glob("[!.]*")} - keep
    gone = []
    for key in sorted(keys):
        place = EnvironmentPlace(root, key)
        if place.stamp.exists() and last_used(place) > before:
            continue
        place.set_aside()
        for file in (place.order, place.step, place.failure):
            file.unlink(missing_ok=True)
        gone.append(key)
    # What was printed is of use to whoever wonders why it failed, also when they have taken back what wanted it.
    for log in home.logs.glob(f"{PREFIX}*.log*"):
        with suppress(OSError):  # the supervisor removes old ones, too; and what is no file is not ours
            if log.name.partition(".")[0].removeprefix(PREFIX) not in keep and log.stat().st_mtime < before:
                log.unlink(missing_ok=True)
    return gone
