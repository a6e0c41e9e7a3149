"""A tether that survives its supervisor: when that is killed and brought back, the new one is tied to, too."""

from __future__ import annotations

import threading
import time
from typing import Final

from mizzen.supervisor.client import SupervisorGone, Tether
from mizzen.supervisor.home import Home

REVIVAL: Final = 10.0
"""Seconds a killed supervisor may take to be brought back."""


class KeptTether:
    """While this process lives and has not let go, the plane lives no longer than it. Raises SupervisorGone."""

    def __init__(self, home: Home) -> None:
        self.ended = threading.Event()
        """Set when the plane was stopped, or its supervisor was lost for longer than REVIVAL."""
        self.lost = False
        self._home = home
        self._letting_go = threading.Event()
        self._tether = Tether(home)
        self._thread = threading.Thread(target=self._hold, name="mizzen-tether", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Let go without ending the plane."""
        self._letting_go.set()
        self._thread.join()
        if self.ended.is_set():
            return
        try:
            self._tether.untether()
        except SupervisorGone:
            return
        finally:
            self._tether.close()

    def _hold(self) -> None:
        while not self._letting_go.is_set():
            match self._tether.wait(timeout=0.2):
                case "stopping":
                    break
                case "gone" if not self._tie_again():
                    self.lost = self._home.info.exists() and not self._letting_go.is_set()
                    break
                case _:
                    continue
        else:
            return
        self._tether.close()
        self.ended.set()

    def _tie_again(self) -> bool:
        end = time.monotonic() + REVIVAL
        while time.monotonic() < end and self._home.info.exists() and not self._letting_go.is_set():
            try:
                fresh = Tether(self._home)
            except SupervisorGone:
                time.sleep(0.05)
                continue
            self._tether.close()
            self._tether = fresh
            return True
        return False
