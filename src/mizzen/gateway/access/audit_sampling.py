"""Predictions that leave an entry in the audit: some of them, by chance, so that nobody can tell which.

An entry says who asked what and how it ended, with size and digest of what came and went, and none of it. It is written
once the answer is on its way, beside the refusals (`refusals`), and taken into the audit by the same way. What is large
is digested in a thread. Who is not chosen costs one subtraction; where nobody is, nothing but a comparison.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from mizzen.access.refusal_lines import LONGEST, LONGEST_REASON, Refusal
from mizzen.access.safe_text import plain
from mizzen.gateway.access.refusal_log import Refusals
from mizzen.gateway.inference.inference import Inference, Service
from mizzen.gateway.inference.protocols import JSON, Options
from mizzen.gateway.route_table import Endpoint

LARGE = 64 << 10
"""Bytes that are digested elsewhere."""
MOST_HELD = 64 << 20
"""Bytes that may wait for that; what is more is noted without a digest."""

Elsewhere = Callable[[Callable[[], list[str]]], "asyncio.Future[list[str]]"]


class Asked(NamedTuple):
    """What was noted of a prediction when it began."""

    samples: Samples
    endpoint: Endpoint
    body: bytes
    options: Options


class Samples:
    def __init__(
        self, share: float, entries: Refusals, *, wall: Callable[[], float], rng: random.Random, elsewhere: Elsewhere
    ) -> None:
        """`share` of all predictions: above 0, at most 1. `entries` is for these alone. `elsewhere` does something
        beside the event loop."""
        self._share = share
        self._entries = entries
        self._wall = wall
        self._rng = rng
        self._elsewhere = elsewhere
        self._passed_by = self._next()
        self._held = 0

    def chosen(self) -> bool:
        """For each prediction once."""
        self._passed_by -= 1
        if self._passed_by >= 0:
            return False
        self._passed_by = self._next()
        return True

    def note(self, asked: Asked, request_id: bytes, code: int, answer: bytes) -> None:
        write = partial(self._write, asked, request_id=request_id, code=code, when=self._wall())
        both, size = (asked.body, answer), len(asked.body) + len(answer)
        if size <= LARGE:
            write([_told(data) for data in both])
        elif self._held + size > MOST_HELD:
            write([_size(data) for data in both])
        else:
            self._held += size

            def digested(told: asyncio.Future[list[str]]) -> None:
                self._held -= size
                if not told.cancelled():
                    write(told.result())

            self._elsewhere(lambda: [_told(data) for data in both]).add_done_callback(digested)

    def close(self) -> None:
        self._entries.close()

    def _next(self) -> int:
        """How many are passed by until the next: as if each were decided for itself."""
        if self._share >= 1:
            return 0
        return int(math.log(1.0 - self._rng.random()) / math.log1p(-self._share))

    def _write(self, asked: Asked, told: list[str], *, request_id: bytes, code: int, when: float) -> None:
        endpoint, options = asked.endpoint, asked.options
        came, went = told
        reason = f"sampled: version {endpoint.version}, request {request_id.decode('latin-1')}, in {came}, out {went}"
        self._entries.add(
            Refusal(
                time=when, actor=options.actor, verb="predict", kind=endpoint.target.kind, allowed=True, code=code,
                namespace=endpoint.namespace, name=endpoint.name, reason=plain(reason, LONGEST_REASON),
                method=options.method, path=plain(options.path.decode("latin-1"), LONGEST),
            )
        )  # fmt: skip


class Sampled(Inference):
    """A prediction that was chosen. Whoever derives from it also says how it is answered."""

    __slots__ = ()

    def start(self, service: Service, endpoint: Endpoint, body: bytes, options: Options) -> None:
        assert service.samples is not None
        self.sample: Asked | None = Asked(service.samples, endpoint, body, options)
        super().start(service, endpoint, body, options)

    def reply(self, code: int, body: bytes, kind: bytes = JSON) -> None:
        super().reply(code, body, kind)
        asked: Asked | None = getattr(self, "sample", None)  # none of what was refused before it began
        if asked is not None:
            self.sample = None
            asked.samples.note(asked, self.id, code, body)


def _told(data: bytes) -> str:
    return f"{_size(data)} sha256:{hashlib.sha256(data).hexdigest()}"


def _size(data: bytes) -> str:
    return f"{len(data)} bytes"
