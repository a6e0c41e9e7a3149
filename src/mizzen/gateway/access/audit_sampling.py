"""Random sampling of predictions for the audit, so that callers cannot tell which ones are recorded.

An entry names the caller, the target and the result, with the size and digest of both bodies but not their content. It
is written once the answer is on its way, next to the refusals (`refusal_log`), and reaches the audit the same way. A
thread computes the digests of large bodies. A prediction that is not sampled costs one subtraction; with sampling
off, it costs one comparison.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from mizzen.access.policy import Target
from mizzen.access.refusal_lines import LONGEST, LONGEST_REASON, Refusal
from mizzen.access.safe_text import sanitize
from mizzen.gateway.access.refusal_log import RefusalLog

LARGE_BYTES = 64 << 10
"""Bodies above this size are digested in a thread."""
MAX_PENDING_BYTES = 64 << 20
"""Bytes that may wait for a digest; entries beyond that have none."""

RunInThread = Callable[[Callable[[], list[str]]], "asyncio.Future[list[str]]"]


class SampledPrediction(NamedTuple):
    """The facts about a sampled prediction that are known when it begins."""

    samples: AuditSampler
    target: Target
    version: str
    body: bytes
    actor: str
    method: str
    path: bytes


class AuditSampler:
    def __init__(
        self,
        share: float,
        entries: RefusalLog,
        *,
        wall: Callable[[], float],
        rng: random.Random,
        run_in_thread: RunInThread,
    ) -> None:
        """`share`: of all predictions, above 0 and at most 1. `entries`: a log for samples alone. `run_in_thread`
        runs a function outside the event loop."""
        self._share = share
        self._entries = entries
        self._wall = wall
        self._rng = rng
        self._run_in_thread = run_in_thread
        self._skip = self._draw_skip()
        self._pending_bytes = 0

    def should_sample(self) -> bool:
        """Must be called exactly once for each prediction."""
        self._skip -= 1
        if self._skip >= 0:
            return False
        self._skip = self._draw_skip()
        return True

    def note(self, prediction: SampledPrediction, request_id: bytes, code: int, answer: bytes) -> None:
        write = partial(self._write, prediction, request_id=request_id, code=code, when=self._wall())
        both, size = (prediction.body, answer), len(prediction.body) + len(answer)
        if size <= LARGE_BYTES:
            write([_digest(data) for data in both])
        elif self._pending_bytes + size > MAX_PENDING_BYTES:
            write([_size(data) for data in both])
        else:
            self._pending_bytes += size

            def on_digest(digests: asyncio.Future[list[str]]) -> None:
                self._pending_bytes -= size
                if not digests.cancelled():
                    write(digests.result())

            self._run_in_thread(lambda: [_digest(data) for data in both]).add_done_callback(on_digest)

    def close(self) -> None:
        self._entries.close()

    def _draw_skip(self) -> int:
        """Returns how many predictions to skip, as if each were drawn independently."""
        if self._share >= 1:
            return 0
        return int(math.log(1.0 - self._rng.random()) / math.log1p(-self._share))

    def _write(
        self, prediction: SampledPrediction, digests: list[str], *, request_id: bytes, code: int, when: float
    ) -> None:
        target, version = prediction.target, prediction.version
        came, went = digests
        reason = f"sampled: version {version}, request {request_id.decode('latin-1')}, in {came}, out {went}"
        self._entries.add(
            Refusal(
                time=when, actor=prediction.actor, verb="predict", kind=target.kind, allowed=True, code=code,
                namespace=target.namespace, name=target.name, reason=sanitize(reason, LONGEST_REASON),
                method=prediction.method, path=sanitize(prediction.path.decode("latin-1"), LONGEST),
            )
        )  # fmt: skip


def _digest(data: bytes) -> str:
    return f"{_size(data)} sha256:{hashlib.sha256(data).hexdigest()}"


def _size(data: bytes) -> str:
    return f"{len(data)} bytes"
