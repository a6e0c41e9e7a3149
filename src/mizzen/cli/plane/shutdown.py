"""The end of a plane in the foreground, said aloud."""

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
    """Ends the plane and says what that is; a further interrupt makes it a kill."""
    seen, began = interrupts.count, time.monotonic()
    with suppress(client.SupervisorGone):
        running = connection_stop.named(connection_stop.members(home), connection_stop.trains(home))
        output.tell(f"stopping {', '.join(running)} (Ctrl-C again kills)")
    with ThreadPoolExecutor(max_workers=1) as pool:
        ending = pool.submit(connection_stop.stop, home)
        while not wait((ending,), timeout=0.05).done:
            if interrupts.count > seen:
                seen = interrupts.count
                with suppress(client.SupervisorGone, client.Refused):
                    client.ask(home, "stop", graceful=False)
        ending.result()
    output.tell(f"stopped in {time.monotonic() - began:.1f} s")
