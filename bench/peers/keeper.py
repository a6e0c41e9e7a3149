"""`python -m bench.peers.keeper COMMAND...`: runs a server and ends all that came of it, whatever it left behind.

Some servers start daemons that leave their parent and rename themselves, so that neither parent nor environment tells
whose they are. The keeper adopts such orphans: what runs below it is the server, all of it and nothing else. It ends
them by pid when the server ends, when it is told to by TERM, or when its standard input closes, which also happens
when whoever started it is killed.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

from bench import contestants, procfs

SET_CHILD_SUBREAPER = 36


def main(command: Sequence[str]) -> int:
    if ctypes.CDLL(None, use_errno=True).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot adopt orphans")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with whoever started it
    code = 0
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        ended = os.pidfd_open(process.pid)
        ready, _, _ = select.select([sys.stdin.fileno(), ended], [], [])
        if ended in ready:
            code = process.wait() & 0xFF or 1  # a server that ends by itself has failed
    finally:
        end_all()
    return code


def below() -> frozenset[int]:
    stats = procfs.snapshot()
    living = {pid for pid in procfs.tree(os.getpid(), stats) if stats[pid].state != "Z"}
    return frozenset(living - {os.getpid()})


def end_all() -> None:
    """Again and again: one may have started another meanwhile."""
    while pids := below():
        contestants.end(pids)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
