"""`python -P -m mizzen.supervisor RUN_DIR [--daemon] [--tethered]`: RUN_DIR is `<data_dir>/run`. `launch` calls it.

With --daemon, stdout is a pipe. The supervisor writes `launch.UP` to it when it is up and then closes it; the pipe also
closes if the supervisor exits. A supervisor that finds another one alive exits quietly with 0.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mizzen.supervisor import launch, listeners
from mizzen.supervisor.data_dir import Home, read_json, write_json
from mizzen.supervisor.processes import survivors
from mizzen.supervisor.protocol import Boot
from mizzen.supervisor.server import Supervisor

_LOCK_WAIT = 3.0
"""Seconds to wait for a supervisor that has answered its stop request and is exiting; that takes at most 2."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="mizzen.supervisor")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--daemon", action="store_true")
    parser.add_argument("--tethered", action="store_true", help="stop soon unless a client opens a tether")
    arguments = parser.parse_args()
    os.umask(0o077)  # children inherit it: a plane's files stay private even in a data dir open to others
    # Use the parent of RUN_DIR as passed: RUN_DIR itself may be a link to a shorter path.
    home = Home.of(arguments.run_dir.absolute().parent)
    home.prepare()
    if arguments.daemon:
        _become_daemon()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    ready = _notify_starter if arguments.daemon else lambda: None
    deadline = time.monotonic() + _LOCK_WAIT
    while True:
        with survivors.lock(home) as locked:
            if locked:
                return _supervise(home, ready, tethered=arguments.tethered)
        if launch.alive(home) is not None:
            return 0
        if time.monotonic() > deadline:
            return _fail(home, f"another process holds the supervisor lock of {home.data_dir}, but no supervisor runs")
        time.sleep(0.05)


def _supervise(home: Home, ready: Callable[[], None], *, tethered: bool) -> int:
    inherited = listeners.take_inherited(os.environ)
    if inherited is not None:
        if not home.info.exists():
            return 0  # everything was stopped on purpose while this process waited for the lock
        tethered = (read_json(home.info) or {}).get("tether", "none") != "none"
    home.failure.unlink(missing_ok=True)
    try:
        boot = Boot.read(home.boot)
        if inherited is None:
            survivors.end_holders(home, boot.stop_timeout)
        sockets = listeners.open_all(home, boot.listeners, inherited or {})
    except listeners.PortTaken as error:
        return _fail(home, str(error), launch.Reason.PORT_TAKEN)
    except (listeners.CannotListen, ValueError) as error:
        return _fail(home, str(error))

    async def run() -> None:
        await Supervisor(home, boot, sockets, tethered=tethered).run(ready)

    asyncio.run(run())
    return 0


def _fail(home: Home, message: str, reason: launch.Reason = launch.Reason.OTHER) -> int:
    write_json(home.failure, {"message": message, "reason": reason})
    logging.error(message)
    return 1


def _become_daemon() -> None:
    """Moves to a new session with init as its parent, independent of the terminal and the starter."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")


def _notify_starter() -> None:
    with suppress(BrokenPipeError):  # the starter was killed meanwhile
        os.write(sys.stdout.fileno(), launch.UP)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
