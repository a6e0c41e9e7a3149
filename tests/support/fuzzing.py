"""Random inputs that are almost right: a seeded generator of mutations, and what must hold whatever was sent.

A failure names the seed, the number of the input and its bytes: `ATTACK_SEED=<seed>` sends the same inputs again.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from tests.support import attack, planes

GROWTH = 64 << 20
"""Bytes by which a process may grow."""
ALLOWED_5XX = frozenset({501, 503, 505, 507})
"""501: a method, upgrade or coding that is not supported. 505: a version of HTTP that is not."""
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3}) ")
_PATIENCE = 0.1
"""Seconds to wait for an answer to something that may not deserve one."""

ODD_NUMBERS = (0, -1, 1, 2**31, 2**32 - 1, 2**63, 2**64, -(2**63) - 1, 1e308, -0.0, 1.5, 10**30)
ODD_TEXTS = (
    "",
    "\0",
    "../../admin-token",
    "é" * 50,
    "a" * 5000,
    "%00",
    "-1",
    "null",
    "{}",
    "\ud83d\ude00",
    "\u202e",
    "NaN",
)
ODD_BYTES = (
    b"\0", b"\r\n", b"\n", b"\r", b"\xff\xfe", b"\xc3\x28", b"{", b"}" * 40, b"[" * 400, b'"', b"\\u0000", b"\\ud800",
    b"NaN", b"1e999", b"-", b": ", b"%s%n", b"\x1f\x8b", b"PK\x03\x04", b"&a [*a]", b"!!python/object", b"0" * 300,
)  # fmt: skip


class Mutator:
    """Changes right inputs in a few places."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def bytes_(self, data: bytes, most: int = 4) -> bytes:
        changed = bytearray(data)
        for _ in range(self.rng.randint(1, most)):
            at = self.rng.randint(0, len(changed))
            span = self.rng.choice((1, 2, 4, 16, len(changed) // 4 + 1))
            match self.rng.randrange(7):
                case 0 if at < len(changed):
                    changed[at] ^= 1 << self.rng.randrange(8)
                case 1 if at < len(changed):
                    changed[at] = self.rng.choice((0, 0x7F, 0x80, 0xFF, self.rng.randrange(256)))
                case 2:
                    del changed[at : at + span]
                case 3:
                    changed[at:at] = changed[at : at + span] * self.rng.choice((1, 1, 1, 20))
                case 4:
                    changed[at:at] = self.rng.choice(ODD_BYTES)
                case 5:
                    changed[at:at] = self.rng.randbytes(span % 64)
                case _:
                    other = self.rng.randint(0, len(changed))
                    changed[at : at + span] = changed[other : other + span]
        return bytes(changed)

    def value(self, document: Any) -> Any:
        """A document with one inner value replaced, doubled, moved or removed."""
        copy = json.loads(json.dumps(document))
        places = list(_places(copy))
        if not places:
            return self._odd()
        for _ in range(self.rng.randint(1, 2)):
            holder, key = self.rng.choice(places)
            with contextlib.suppress(KeyError, IndexError):  # an earlier change removed it
                match self.rng.randrange(5):
                    case 0:
                        del holder[key]
                    case 1 if isinstance(holder, dict):
                        holder[self.rng.choice(ODD_TEXTS)] = holder.pop(key)
                    case 2:
                        other, place = self.rng.choice(places)
                        holder[key] = json.loads(json.dumps(other[place]))
                    case 3:
                        holder[key] = [holder[key]] * self.rng.choice((0, 1, 2, 100))
                    case _:
                        holder[key] = self._odd()
        return copy

    def json(self, document: Any) -> bytes:
        """Half of them are valid JSON."""
        data = json.dumps(self.value(document)).encode()
        return data if self.rng.random() < 0.5 else self.bytes_(data)

    def _odd(self) -> Any:
        deep: Any = 1
        for _ in range(self.rng.choice((1, 30, 300))):
            deep = [deep] if self.rng.random() < 0.5 else {"a": deep}
        return self.rng.choice((*ODD_NUMBERS, *ODD_TEXTS, None, True, [], {}, [[]], {"": {}}, deep))


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    waiting = [document]
    while waiting:
        inner = waiting.pop()
        keys = inner if isinstance(inner, dict) else range(len(inner)) if isinstance(inner, list) else ()
        for key in list(keys):
            yield inner, key
            waiting.append(inner[key])


@dataclass
class Fuzzing:
    """One series of inputs to one plane, and what must hold at its end."""

    plane: planes.TestPlane
    seed: int
    sent: list[bytes] = field(default_factory=list)
    """The newest inputs, of which one is to blame."""
    count: int = 0

    def note(self, data: bytes) -> bytes:
        self.count += 1
        self.sent = [*self.sent[-4:], data]
        return data

    def check_codes(self, codes: list[int]) -> None:
        bad = [code for code in codes if code >= 500 and code not in ALLOWED_5XX]
        assert not bad, self.explain(f"the answer was {bad}")

    def check_not(self, code: object, bad: tuple[object, ...]) -> None:
        assert code not in bad, self.explain(f"the answer was {code}")

    def explain(self, what: str) -> str:
        inputs = "\n".join(repr(data[:3000]) for data in self.sent)
        return f"{what}; {attack.SEED_VARIABLE}={self.seed}, input {self.count}; the newest inputs:\n{inputs}"


@contextlib.contextmanager
def fuzzing(plane: planes.TestPlane, salt: str) -> Iterator[tuple[Fuzzing, Mutator]]:
    """Checks that the plane survived: same processes, no Traceback, bounded memory, and answers."""
    seed = attack.seed()
    run, mutator = Fuzzing(plane, seed), Mutator(random.Random(f"{seed} {salt}").randrange(1 << 62))
    processes = {process.pid: process for process in planes.members(plane.data_dir)}
    names = {pid: _name(process) for pid, process in processes.items()}
    memory = {pid: process.memory_info().rss for pid, process in processes.items()}
    said = attack.logs_of(plane.data_dir).count("Traceback")
    yield run, mutator
    for path in ("/healthz", "/version"):
        assert (codes := exchange(plane.control_url, _get(plane.control_url, path), closes=True)) == [200], codes
    assert exchange(plane.inference_url, _get(plane.inference_url, "/v2/health/live"), closes=True) == [200]
    logs = attack.logs_of(plane.data_dir)
    assert logs.count("Traceback") == said, run.explain(f"a log has\n{logs[logs.rfind('Traceback') - 500 :][:4000]}")
    for pid, process in processes.items():
        assert process.is_running(), run.explain(f"{names[pid]} ended")
        grown = process.memory_info().rss - memory[pid]
        assert grown < GROWTH, run.explain(f"{names[pid]} grew by {grown >> 20} MiB")


def exchange(url: str, data: bytes, *, closes: bool = False) -> list[int]:
    """Sends bytes over a connection of their own; returns the status codes in what comes back.

    `closes`: the answer ends with the connection. Else it may never come, so the wait is short.
    """
    at = urlsplit(url if "//" in url else f"http://{url}")
    answer = b""
    with contextlib.suppress(OSError), connection(at.scheme, str(at.hostname), int(at.port or 0)) as peer:
        peer.sendall(data)
        peer.settimeout(60 if closes else _PATIENCE)
        while chunk := peer.recv(1 << 16):
            answer += chunk
    return [int(code) for code in _STATUS.findall(answer)]


@contextlib.contextmanager
def connection(scheme: str, host: str, port: int) -> Iterator[socket.socket]:
    with socket.create_connection((host, port), timeout=60) as plain:
        if scheme != "https":
            yield plain
            return
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(plain) as secured:
            yield secured


def _get(url: str, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nConnection: close\r\n\r\n".encode()


def _name(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return process.environ().get("MIZZEN_PROCESS_KEY", "") or Path(process.cmdline()[0]).name
    return str(process.pid)


Send = Callable[[bytes], list[int]]


def repeat(run: Fuzzing, few: int, make: Callable[[], bytes], send: Send) -> None:
    """Sends so many inputs, or more by `ATTACK=long`, and checks each answer."""
    for _ in range(attack.rounds(few)):
        run.check_codes(send(run.note(make())))
