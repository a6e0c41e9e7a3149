"""Work on large bodies: in a thread of its own, one after the other, and a few for each person.

The threads that all others share write files: what revokes a token must not wait there behind what somebody sends.
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

MOST_OF_ONE = 4
"""Pieces of work that one person may have waiting."""


class Apart:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large bodies")
        self._waiting: Counter[str] = Counter()

    async def run(self, actor: str, work: Callable[[], T]) -> T:
        """The result of `work`. Unavailable when much of this person's is waiting already."""
        if self._waiting[actor] >= MOST_OF_ONE:
            raise Unavailable(
                f"{MOST_OF_ONE} large bodies of yours are being read already", hint="send them one after the other"
            )
        self._waiting[actor] += 1
        done = self._thread.submit(work)
        loop = asyncio.get_running_loop()
        # When the work is over, and not when its caller is: who leaves at once cannot send the next at once.
        done.add_done_callback(lambda _: self._later(loop, actor))
        return await asyncio.wrap_future(done)

    def _later(self, loop: asyncio.AbstractEventLoop, actor: str) -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile, and all that waited with it
            loop.call_soon_threadsafe(self._forget, actor)

    def _forget(self, actor: str) -> None:
        self._waiting[actor] -= 1
        if not self._waiting[actor]:
            del self._waiting[actor]
