"""Stopping a plane in the foreground, with progress messages."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress

from mizzen.cli import output
from mizzen.cli.interrupts import Interrupts
from mizzen.sdk.connection import stop as connection_stop
from mizzen.supervisor import client
from mizzen.supervisor.data_dir import Home


def stop(home: Home, interrupts: Interrupts) -> None:
    """Stop the plane and print what is stopped; a further interrupt kills it."""
    seen, began = interrupts.count, time.monotonic()
    with suppress(client.SupervisorGone):
        running = connection_stop.describe_processes(connection_stop.members(home), connection_stop.trains(home))
        output.write_progress(f"stopping {', '.join(running)} (press Ctrl-C again to kill)")
    with ThreadPoolExecutor(max_workers=1) as pool:
        ending = pool.submit(connection_stop.stop, home)
        while not wait((ending,), timeout=0.05).done:
            if interrupts.count > seen:
                seen = interrupts.count
                with suppress(client.SupervisorGone, client.Refused):
                    client.ask(home, "stop", graceful=False)
        ending.result()
    output.write_progress(f"stopped in {time.monotonic() - began:.1f} s")
