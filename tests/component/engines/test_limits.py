from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from mizzen.blobs.file_store import FileBlobs
from mizzen.engines.local.confinements import ConfinementPolicy
from mizzen.engines.local.engine import LocalEngine
from mizzen.engines.local.process_specs import retry_after
from tests.contract.engines import GIVES_UP, SERVES, observed, ready, states, workload
from tests.support.supervised import Supervised, supervised


def test_what_it_lacked_may_be_there_by_the_next_attempt(tmp_path: Path) -> None:
    """A real process that gives up until a file is there, and an engine whose clock the test moves."""
    own = tmp_path / "own"
    own.mkdir()
    needed, late = own / "needed", [0.0]
    confining = ConfinementPolicy(read=(str(own),))
    given = workload(f"import os, sys\nexec({SERVES!r} if os.path.exists({str(needed)!r}) else {GIVES_UP!r})")

    async def story(plane: Supervised) -> None:
        blobs = FileBlobs(plane.home.data_dir / "blobs")
        clock = lambda: time.time() + late[0]  # noqa: E731
        engine = LocalEngine(plane.home, blobs, python=sys.executable, now=clock, confining=confining)
        try:
            await observed(engine, given, lambda seen: states(seen) == {"failed"})
            needed.touch()
            assert states(await engine.apply(given)) == {"failed"}, "not at once"
            late[0] = retry_after(0)
            await ready(engine, given)
        finally:
            await engine.close()

    with supervised(tmp_path / "d") as plane:
        plane.start()
        asyncio.run(story(plane))
