"""Following the log of a job set to its end, across restarts of the plane, with no line lost or repeated.

Lines of one replica arrive in the order in which it printed them, however several replicas are merged. So after a break
the log is read again, and for each replica as many lines are skipped as were already yielded.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

from mizzen import errors
from mizzen.sdk.operations import train

if TYPE_CHECKING:
    from mizzen.sdk.api.jobs import JobCalls, JobRef

_PAUSE: Final = 0.5


async def follow(
    plane: JobCalls, job: JobRef, read: Callable[[], AsyncIterator[str]], *, whole: bool
) -> AsyncIterator[str]:
    """`read` starts a stream of the log. `whole`: from its first line, without which it cannot be resumed."""
    clock = asyncio.get_running_loop().time
    yielded: Counter[str] = Counter()
    failing_since: float | None = None
    while True:
        try:
            async for text in _read_new(read(), yielded):
                failing_since = None
                yield text
            if (await plane.job(job))["state"] in train.ENDS:
                return
            broken = errors.Unavailable("the plane stopped")
        except errors.NotFound:
            if not yielded:
                raise
            return  # its object is gone, and the job had ended before
        except errors.Unavailable as error:
            broken = error
        failing_since = failing_since or clock()
        if not whole or clock() - failing_since > train.PATIENCE:
            hint = f"the job keeps running; 'mizzen train logs {job.id} --follow' shows its log"
            raise errors.Unavailable(broken.message, hint=hint) from broken
        await asyncio.sleep(_PAUSE)


async def _read_new(pieces: AsyncIterator[str], yielded: Counter[str]) -> AsyncIterator[str]:
    """Yield whole lines that were not yielded before, and count them."""
    seen: Counter[str] = Counter()
    left = ""
    async for piece in pieces:
        *lines, left = (left + piece).split("\n")
        if new := "".join(f"{line}\n" for line in lines if _is_new(line, seen, yielded)):
            yield new
    if left and _is_new(left, seen, yielded):
        yield f"{left}\n"


def _is_new(line: str, seen: Counter[str], yielded: Counter[str]) -> bool:
    replica = line.partition("] ")[0]
    seen[replica] += 1
    if seen[replica] <= yielded[replica]:
        return False
    yielded[replica] = seen[replica]
    return True
