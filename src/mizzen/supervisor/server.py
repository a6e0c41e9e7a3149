"""The supervisor: the process table, takeover from a dead predecessor, and the full stop."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from mizzen.confinement import process_tree
from mizzen.supervisor import listeners
from mizzen.supervisor.connection import ClientConnection
from mizzen.supervisor.data_dir import Home, load_or_create_key, write_json
from mizzen.supervisor.processes import procfs, survivors
from mizzen.supervisor.processes.containment import Containment
from mizzen.supervisor.processes.exits import Exits
from mizzen.supervisor.processes.log_rotation import expire, is_too_long, rotate
from mizzen.supervisor.processes.process import Process, SupervisorContext
from mizzen.supervisor.processes.spawn import SpawnContext
from mizzen.supervisor.protocol import MAX_LINE, Boot, ProcessSpec, State

MAX_STRANGERS = 64
"""Maximum connections whose peers have not sent the key; beyond it, the oldest is closed."""

_LAST_CHANCE = 0.2
"""Seconds that a rank has to exit if earlier ranks used up the time."""

_KILL_WAIT = 2.0
_CHECK_LOGS = 5.0
_EXPIRE_LOGS = 3600.0

_TETHER_WAIT = 5.0
"""Seconds to wait for an awaited tether. A tether's holder reconnects at once after a revival."""

log = logging.getLogger(__name__)


class Supervisor:
    def __init__(self, home: Home, boot: Boot, sockets: Mapping[str, socket.socket], *, tethered: bool) -> None:
        """Needs a running loop. `sockets` are the listening sockets to hold and to pass on to processes."""
        loop = asyncio.get_running_loop()
        self.processes: dict[str, Process] = {}
        self.connections: dict[ClientConnection, asyncio.Task[None]] = {}
        self.key = load_or_create_key(home.key)
        self._home = home
        self._boot = boot
        self._sockets = sockets
        self._tether_awaited = tethered
        self._exits = Exits(loop)
        self._changed = asyncio.Event()
        self._stop: asyncio.Task[list[str]] | None = None
        self._leaving = False
        self._stop_begun = asyncio.Event()
        self._containment = Containment.detect(home)
        self._context = SupervisorContext(
            spawning=SpawnContext(
                home=home,
                environment=dict(os.environ),
                listeners={name: listening.fileno() for name, listening in sockets.items()},
                containment=self._containment,
                logs=boot.logs,
            ),
            exits=self._exits,
            loop=loop,
            changed=self._on_change,
            now=time.time,
            new_run=lambda: secrets.token_hex(8),
        )

    async def run(self, ready: Callable[[], None]) -> None:
        """Runs until stopped; calls `ready` when it accepts connections."""
        loop = asyncio.get_running_loop()
        process_tree.become_subreaper()
        loop.add_signal_handler(signal.SIGCHLD, self._exits.reap)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        self._home.leaving.unlink(missing_ok=True)
        waiting = self._adopt()
        self._home.socket.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._serve_client, self._home.socket, limit=MAX_LINE)
        self._home.socket.chmod(0o600)
        if not self._stop_begun.is_set():  # a signal may just have set it
            write_json(self._home.info, self.info())  # before anything starts: if this fails, nothing is left running
            for process, lost in waiting:
                process.resume(lost=lost)
            for spec in self._boot.processes:
                self.apply(spec, boot=True)
        ready()
        loop.call_later(_TETHER_WAIT, self._on_no_tether)
        async with asyncio.TaskGroup() as group:
            logs = group.create_task(self._rotate_logs())
            await self._stop_begun.wait()
            assert self._stop is not None
            await self._stop
            logs.cancel()
        server.close()
        await self._end_connections()

    def info(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "start": procfs.start_of(os.getpid()),
            "listeners": {name: listeners.address(listening) for name, listening in self._sockets.items()},
            "data_dir": str(self._home.data_dir),
            "tether": self._tether(),
        }

    def note_tethers(self) -> None:
        """A client opened or released a tether, so none is awaited. Also recorded for a successor."""
        self._tether_awaited = False
        if self._stop is None:
            try:
                write_json(self._home.info, self.info())
            except OSError:  # a full disk must not end supervision; the cost: a successor does not know of it
                log.exception("cannot write %s", self._home.info)

    def apply(self, spec: ProcessSpec, *, boot: bool = False) -> Process:
        """Adds or updates a process. Idempotent. Raises ValueError while everything is being stopped."""
        if self._stop is not None:
            raise ValueError("the supervisor is stopping")
        process = self.processes.get(spec.key)
        if process is None:
            process = self.processes[spec.key] = Process.of(self._context, spec, boot=boot)
            process.start()
        else:
            process.become(spec)
        return process

    def remove(self, key: str, grace: float | None = None) -> Process | None:
        """Stops a process; returns None if it is gone. `grace`: seconds from TERM to KILL; None: as in its spec."""
        process = self.processes.get(key)
        if process is None:
            return None
        if process.view.state is State.STOPPING:
            process.retire()  # its current grace period continues
        else:
            process.stop(process.spec.grace if grace is None else grace)
        return self.processes.get(key)

    async def stop(self, *, graceful: bool, leave: bool = False) -> list[str]:
        """Stops everything; returns the keys of lasting processes left running (only with `leave`).

        All callers wait for the same stop. A call without `graceful` speeds it up, and a call without `leave` makes it
        end lasting processes too.
        """
        return await asyncio.shield(self._begin_stop(graceful=graceful, leave=leave))

    async def on_tether_end(self) -> None:
        """Stops everything, unless a stop is already under way: then the holder exits because of that stop."""
        if self._stop is None:
            await self.stop(graceful=True)

    def _on_signal(self) -> None:
        self._begin_stop(graceful=self._stop is None)

    def _on_no_tether(self) -> None:
        if self._tether() == "awaited":
            log.warning("no client opened a tether; stopping")
            self._begin_stop(graceful=True)

    def _tether(self) -> Literal["none", "held", "awaited"]:
        if any(connection.tethered for connection in self.connections):
            return "held"
        return "awaited" if self._tether_awaited else "none"

    def _begin_stop(self, *, graceful: bool, leave: bool = False) -> asyncio.Task[list[str]]:
        if self._stop is None:
            self._leaving = leave
            if leave:
                self._note_leaving()
            self._home.info.unlink(missing_ok=True)  # first: from here on no process revives this supervisor
            for connection in self.connections:
                connection.send({"event": "stopping"})
            self._stop = asyncio.create_task(self._stop_all())
            self._stop_begun.set()
        elif self._leaving and not leave:
            self._leaving = False
            self._home.leaving.unlink(missing_ok=True)
            self._stop_lasting()
        if not graceful:
            for process in self._ending():
                process.stop(0)
        return self._stop

    def _note_leaving(self) -> None:
        try:
            self._home.leaving.touch(mode=0o600)
        except OSError:  # a full disk must not prevent a stop; only a process that has to finish it needs this
            log.exception("cannot write %s", self._home.leaving)

    async def _stop_all(self) -> list[str]:
        """Stops rank by rank within the stop timeout, then sends KILL; never takes much longer than that.

        Lasting processes do not wait for other ranks: they get the whole timeout, or no signal if left running.
        """
        deadline = time.monotonic() + self._boot.stop_timeout
        for process in self._ending():
            process.retire()
        self._stop_lasting()
        for rank in sorted({process.spec.rank for process in self._ending()}):
            left = max(deadline - time.monotonic(), _LAST_CHANCE)
            members = [process for process in self._ending() if process.spec.rank == rank]
            for process in members:
                process.stop(min(process.spec.grace, left))
            await self._wait_until_gone(members, left + _LAST_CHANCE)
        await self._wait_until_gone(self._ending(), max(deadline - time.monotonic(), 0) + _LAST_CHANCE)
        left_alone = [process for process in self.processes.values() if process not in self._ending()]
        survivors.end_at_once(self._home, {(process.spec.key, process.run) for process in left_alone})
        self._end_orphans({process.view.pid for process in left_alone})
        keys = [process.spec.key for process in left_alone]
        survivors.clear(self._home, keys)
        return keys

    def _stop_lasting(self) -> None:
        for process in self._ending():
            if process.spec.lasting:
                process.stop(min(process.spec.grace, self._boot.stop_timeout))

    def _ending(self) -> list[Process]:
        """Returns the processes that a stop ends: all but running ones to leave. Those count again once they exit."""
        return [
            process
            for process in self.processes.values()
            if not (self._leaving and process.spec.lasting and process.view.state is State.RUNNING)
        ]

    async def _wait_until_gone(self, members: Iterable[Process], seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while any(process.view.state is not State.GONE for process in members):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            log.warning("some processes did not end in time")

    def _adopt(self) -> list[tuple[Process, bool]]:
        """Adopts the processes of a dead supervisor. Returns those to start again, and whether they were running."""
        found = survivors.find(self._home)
        booted = {spec.key for spec in self._boot.processes}
        families: set[tuple[str, str]] = set()
        waiting = []
        for record in survivors.records(self._home):
            key = record.spec.key
            if record.boot and key not in booted:
                continue
            process = self.processes[key] = Process(self._context, record)
            alive = survivors.match_record(record, found)
            if alive is not None:
                families.add((key, record.run))
                process.adopt(*alive)
            else:
                process.save_output()
            if record.view.state is State.STOPPING:
                self.remove(key)
            elif alive is None and (record.boot or record.view.state is not State.FAILED):
                waiting.append((process, record.view.pid is not None))
        self._drop_records()
        self._end_strays(families)
        self._containment.clean_up(families, time.time())
        return waiting

    def _end_orphans(self, spared: Container[int | None]) -> None:
        """Kills what is left below this process where neither groups nor namespaces hold descendants together."""

        def orphans() -> list[int]:
            below = process_tree.find_descendants(os.getpid())
            kept = [process_tree.find_descendants(pid) | {pid} for pid in below if pid in spared]
            return [pid for pid in below.difference(*kept) if procfs.start_of(pid) is not None]

        if not self._containment.hierarchies.kill:
            process_tree.kill_until_gone(orphans, _KILL_WAIT)

    def _drop_records(self) -> None:
        for path in self._home.processes.iterdir():
            if path.stem not in self.processes:
                path.unlink()

    def _end_strays(self, families: Collection[tuple[str, str]]) -> None:
        """Ends processes without a record, duplicates, and leftover children of dead processes.

        Blocks the loop on purpose until they are gone: nothing may start meanwhile, because two processes of one key
        could, for example, write to one database.
        """

        def strays() -> list[survivors.Survivor]:
            found = survivors.find(self._home)
            return [survivor for survivor in found if (survivor.key, survivor.run) not in families]

        for stray in survivors.end(strays, self._boot.stop_timeout, self._home, families):
            log.warning("ended a stray process of %s: pid %s", stray.key, stray.pid)

    def _on_change(self, process: Process) -> None:
        if process.view.state is State.GONE:
            self.processes.pop(process.spec.key, None)
        if process.view.state in (State.GONE, State.FAILED) and self._stop is None:
            # Daemonized children; a stop looks for all of them at its end.
            for left in survivors.find(self._home, process.spec.key):
                procfs.send(left.pid, left.start, signal.SIGKILL)
        self._changed.set()
        for connection in self.connections:
            connection.notify(process.view)

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        strangers = [each for each in self.connections if not each.known]
        if len(strangers) >= MAX_STRANGERS:
            strangers[0].abort()
        connection = ClientConnection(self, reader, writer)
        task = asyncio.current_task()
        assert task is not None
        self.connections[connection] = task
        try:
            await connection.serve()
        finally:
            del self.connections[connection]

    async def _end_connections(self) -> None:
        """Lets each connection send its pending response, such as the one to `stop`."""
        for connection in self.connections:
            connection.finish()
        if self.connections:
            await asyncio.wait(self.connections.values(), timeout=1)

    async def _rotate_logs(self) -> None:
        retention, expired = self._boot.logs, 0.0
        while True:
            paths = {Path(process.spec.log) for process in self.processes.values()} | {self._home.supervisor_log}
            piped = {Path(process.spec.log) for process in self.processes.values() if process.piped}
            for path in sorted(paths - piped):
                try:
                    if is_too_long(path, retention.bytes):
                        await asyncio.to_thread(rotate, path, retention.files)
                except OSError:
                    log.exception("cannot rotate %s", path)
            if time.monotonic() > expired:
                expired = time.monotonic() + _EXPIRE_LOGS
                # Gateways write their access logs here, maybe rarely.
                paths |= {self._home.logs / f"access.{key}.log" for key in self.processes}
                try:
                    for path in await asyncio.to_thread(expire, self._home.logs, paths, time.time(), retention.days):
                        log.info("removed the old log %s", path)
                except OSError:
                    log.exception("cannot remove old logs")
            await asyncio.sleep(_CHECK_LOGS)
