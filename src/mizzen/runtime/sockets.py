"""The sockets of the frame server: its listener, its wake-up on TERM, and the connection of a peer."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import contextlib
import os
import signal
import socket
from collections import deque
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from mizzen.protocol.frames import framing
from mizzen.runtime.frameworks.model import LoadedModel

if TYPE_CHECKING:
    from typing import Self  # newer than the oldest Python that a runtime supports

_CHUNK = 128 << 10
_TERM = int(signal.SIGTERM)


class UnixListener:
    """A listening unix socket that exists at its path only while it accepts connections."""

    def __init__(self, path: str) -> None:
        self._path = path
        # Bind at another path and rename once it listens, so that a client never finds a socket that refuses. The name
        # is short because the length of such paths is limited.
        temporary = str(Path(path).with_name(f".{os.getpid()}"))
        Path(temporary).unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.bind(temporary)
        self.socket.listen(128)
        self._inode = os.stat(temporary).st_ino
        os.rename(temporary, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        if self.socket.fileno() < 0:
            return
        try:
            # A successor may have put its own socket there. Ours is still open, so its inode cannot be in use again.
            if os.stat(self._path).st_ino == self._inode:
                os.unlink(self._path)
        except FileNotFoundError:
            pass
        self.socket.close()


class Terminated:
    """A socket that is readable once TERM has arrived: a signal alone does not wake a selector.

    The handler records which signal arrived. The wake-up descriptor only wakes: it is written to when another thread
    takes the signal, and also by other signals and by forked children, which inherit it.
    """

    def __enter__(self) -> Self:
        self.socket, self._writer = socket.socketpair()
        self.socket.setblocking(False)
        self._writer.setblocking(False)
        self._pid = os.getpid()
        self._arrived = False
        self._handler = self._handle  # one object, to recognize it later
        self._old_handler = signal.getsignal(signal.SIGTERM)
        self._old_fd = signal.set_wakeup_fd(-1)
        self.arm()
        return self

    def arm(self) -> None:
        """Handle TERM from here on, replacing any other handler in this process."""
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        # The same question to `signal` costs a hundred times as much, and this runs after each call.
        if _signal.getsignal(_TERM) is not self._handler:
            signal.signal(signal.SIGTERM, self._handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))

    def has_arrived(self) -> bool:
        """Return whether TERM made the socket readable."""
        self.socket.recv(4096)
        return self._arrived

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a child that the model's code forked: not ours to keep alive
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._arrived = True
        with contextlib.suppress(BlockingIOError):  # full: it is already readable
            self._writer.send(b"\0")

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTERM, self._old_handler)
        signal.set_wakeup_fd(self._old_fd)
        self.socket.close()
        self._writer.close()


class PeerConnection:
    __slots__ = ("_out", "_proof", "_reader", "expected", "model", "owed", "socket", "waits")

    def __init__(self, peer: socket.socket, model: LoadedModel) -> None:
        self.socket = peer
        self.expected = b""
        """The frame that it has to send first; empty: it was accepted."""
        self._proof = b""
        self.model = model
        """The model that the peer was greeted with, and that answers it."""
        self.owed = 0
        """Bytes not yet accepted by the peer."""
        self.waits = False
        """Whether the selector watches for room to write."""
        self._out: deque[memoryview] = deque()
        self._reader = framing.FrameReader()

    @property
    def version(self) -> int:
        """The version of the frames that the peer sends and receives."""
        return self._reader.version

    def receive_proof(self) -> bytes | None:
        """Return the bytes that it sent as its proof, and none beyond it; None: they are not complete. A peer that has
        closed has sent too few."""
        try:
            data = self.socket.recv(len(self.expected) - len(self._proof))
        except BlockingIOError:
            return None
        except ConnectionError:
            return b""
        self._proof += data
        return self._proof if not data or len(self._proof) == len(self.expected) else None

    def receive(self) -> tuple[list[framing.ReceivedFrame], bool]:
        """Return all complete frames received so far, and whether the peer has closed."""
        received: list[framing.ReceivedFrame] = []
        while True:
            room = self._reader.get_buffer()
            try:
                data = self.socket.recv(_CHUNK) if room is None else b""
                size = len(data) if room is None else self.socket.recv_into(room)
            except BlockingIOError:
                return received, False
            except ConnectionError:
                return received, True
            if not size:
                return received, True
            received += self._reader.feed(data) if room is None else self._reader.buffer_updated(size)
            if size < (_CHUNK if room is None else len(room)):
                return received, False

    def owe(self, data: bytes) -> None:
        self._out.append(memoryview(data))
        self.owed += len(data)

    def write(self) -> None:
        """Write as much as fits now. Raises OSError if the peer is gone."""
        while self._out:
            data = self._out[0]
            try:
                sent = self.socket.send(data)
            except BlockingIOError:
                return
            self.owed -= sent
            if sent < len(data):
                self._out[0] = data[sent:]
            else:
                self._out.popleft()
