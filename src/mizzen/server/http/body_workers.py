"""Work on large bodies: in a separate thread, one after the other, with a limit for each caller.

The shared thread pool writes files: revoking a token must not wait there behind a large body.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from mizzen.errors import Unavailable

T = TypeVar("T")

MAX_PER_ACTOR = 4
"""The most pieces of work that one caller may have waiting."""


class BodyWorkers:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large bodies")
        self._waiting: Counter[str] = Counter()

    async def run(self, actor: str, work: Callable[[], T]) -> T:
        """Returns the result of `work`. Raises Unavailable if too much work of this caller is waiting."""
        if self._waiting[actor] >= MAX_PER_ACTOR:
            raise Unavailable(
                f"the plane is already parsing {MAX_PER_ACTOR} large requests of this user", hint="send one at a time"
            )
        self._waiting[actor] += 1
        done = self._thread.submit(work)
        loop = asyncio.get_running_loop()
        # Released when the work ends, not when its caller disconnects: else disconnecting would evade the limit.
        done.add_done_callback(lambda _: self._release_later(loop, actor))
        return await asyncio.wrap_future(done)

    def _release_later(self, loop: asyncio.AbstractEventLoop, actor: str) -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile, and all waiting requests with it
            loop.call_soon_threadsafe(self._release, actor)

    def _release(self, actor: str) -> None:
        self._waiting[actor] -= 1
        if not self._waiting[actor]:
            del self._waiting[actor]
