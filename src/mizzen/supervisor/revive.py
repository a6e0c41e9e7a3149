"""Revival of a killed supervisor by the plane or a gateway, which all inherited the listening sockets."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import closing, suppress

from mizzen.supervisor.client import Client, SupervisorGone
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.launch import StartFailed, launch
from mizzen.supervisor.processes import survivors

_RETRY = 1.0
"""Seconds between attempts when a new supervisor does not start."""

log = logging.getLogger(__name__)


async def keep(home: Home, listeners: Mapping[str, int], *, delay: float) -> None:
    """Holds a connection to the supervisor and starts a new one when it dies. Runs until canceled.

    `delay` lets one process go first. If several try at once, the supervisor's lock decides, and the others connect to
    the winner. A deliberate stop is announced and removes the info file, and nothing is revived after it. If the
    supervisor dies before it has finished that stop, this process finishes it.
    """
    while True:
        with suppress(SupervisorGone), closing(await Client.connect(home)) as client:
            while await client.wait_until_ended() != "gone":
                pass
        if not home.info.exists():
            await _finish_stop(home)
        await asyncio.sleep(delay)
        await _revive(home, listeners)


async def _revive(home: Home, listeners: Mapping[str, int]) -> None:
    if await _is_answering(home):
        return
    log.warning("the supervisor died; starting a new one")
    try:
        await asyncio.to_thread(launch, home, python=sys.executable, listeners=listeners)
    except StartFailed:
        log.exception("the supervisor could not be revived")
        await asyncio.sleep(_RETRY)


async def _finish_stop(home: Home) -> None:
    """Ends everything, this process last. Never returns: a root task must not return because of a stop."""
    while True:
        try:
            await asyncio.to_thread(survivors.end_survivors, home, leave=home.leaving.exists())
        except survivors.SupervisorAlive:
            await asyncio.sleep(_RETRY)  # that supervisor ends this process, and so this wait
        else:
            break
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.Event().wait()


async def _is_answering(home: Home) -> bool:
    try:
        (await Client.connect(home)).close()
    except SupervisorGone:
        return False
    return True
