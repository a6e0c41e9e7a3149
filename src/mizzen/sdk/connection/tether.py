"""A tether that survives its supervisor: if the supervisor is killed and restarted, it ties this process to the new
one."""

from __future__ import annotations

import threading
import time
from typing import Final

from mizzen.supervisor.client import SupervisorGone, Tether
from mizzen.supervisor.data_dir import Home

REVIVAL: Final = 10.0
"""Seconds to wait for a killed supervisor to be restarted, before it counts as lost."""

_LOOK: Final = 0.1
"""Maximum seconds that `release` waits for the thread."""


class KeptTether:
    """Ends the plane when this process ends, unless released before. Raises SupervisorGone."""

    def __init__(self, home: Home) -> None:
        self.ended = threading.Event()
        """`ended` is set when the plane was stopped, or its supervisor was lost for longer than REVIVAL."""
        self.lost = False
        self._home = home
        self._letting_go = threading.Event()
        self._tether = Tether(home)
        self._thread = threading.Thread(target=self._hold, name="mizzen-tether", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Release the tether without ending the plane. `ended` is set if the plane had ended before."""
        self._letting_go.set()
        self._thread.join()
        while not self.ended.is_set():
            try:
                self._tether.untether()
                break
            except SupervisorGone:
                # A restarted supervisor waits for the tether of its predecessor: only a message ends that wait.
                self._tie_again_or_end()
        self._tether.close()

    def _hold(self) -> None:
        while not self.ended.is_set() and not self._letting_go.is_set():
            match self._tether.wait(timeout=_LOOK):
                case "stopping":
                    self._end()
                case "gone":
                    self._tie_again_or_end()

    def _tie_again_or_end(self) -> None:
        if not self._tie_again():
            self.lost = self._home.info.exists()
            self._end()

    def _end(self) -> None:
        self._tether.close()
        self.ended.set()

    def _tie_again(self) -> bool:
        end = time.monotonic() + REVIVAL
        while time.monotonic() < end and self._home.info.exists():
            try:
                fresh = Tether(self._home)
            except SupervisorGone:
                time.sleep(0.05)
                continue
            self._tether.close()
            self._tether = fresh
            return True
        return False
