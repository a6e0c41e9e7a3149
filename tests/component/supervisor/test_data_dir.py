from __future__ import annotations

import os
from pathlib import Path

from mizzen.supervisor.data_dir import SOCKET_LIMIT, SOCKET_ROOM, Home
from tests.support.supervised import supervised


def test_a_long_path_gets_a_short_run_folder_and_works(tmp_path: Path) -> None:
    data_dir = tmp_path / ("long" * 30)
    home = Home.of(data_dir)
    assert len(str(home.run)) + SOCKET_ROOM <= SOCKET_LIMIT
    assert home.run.name.startswith(f"mizzen-{os.getuid()}-")
    with supervised(data_dir) as plane:
        assert Home.of(data_dir) == home
        assert (data_dir / "run").readlink() == home.run
        assert home.run.stat().st_mode & 0o777 == 0o700
        plane.start(plane.spec("one"))
        plane.running("one")
        plane.stop()
