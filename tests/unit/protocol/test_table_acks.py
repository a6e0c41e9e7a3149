from __future__ import annotations

import os
from pathlib import Path

from mizzen.protocol.gateway_files import status_files, table_acks
from mizzen.protocol.gateway_files.table_acks import TableAck
from tests.support import pids


def test_of_each_gateway_the_last_one_it_wrote(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    assert table_acks.list_alive(folder) == []
    for name, serial in (("gateway-1", 7), ("gateway-0", 8), ("gateway-1", 9)):
        table_acks.write(folder, TableAck(name, os.getpid(), serial))
    assert [(each.gateway, each.serial) for each in table_acks.list_alive(folder)] == [
        ("gateway-0", 8),
        ("gateway-1", 9),
    ]
    assert [file.stat().st_mode & 0o777 for file in folder.iterdir()] == [0o600, 0o600], "and nothing else is left"
    status_files.remove(folder, "gateway-0")
    status_files.remove(folder, "gateway-0")
    assert [each.gateway for each in table_acks.list_alive(folder)] == ["gateway-1"]


def test_who_is_dead_or_wrote_nonsense_does_not_count(tmp_path: Path) -> None:
    table_acks.write(tmp_path, TableAck("gateway-0", pids.DEAD, 5))
    (tmp_path / "gateway-1.json").write_bytes(b"{")
    table_acks.write(tmp_path, TableAck("gateway-2", os.getpid(), 4))
    assert [each.gateway for each in table_acks.list_alive(tmp_path)] == ["gateway-2"]


def test_of_gateways_that_are_no_more_nothing_is_left(tmp_path: Path) -> None:
    table_acks.sweep(tmp_path / "none", ["gateway-0"])
    for name in ("gateway-0", "gateway-1"):
        table_acks.write(tmp_path, TableAck(name, os.getpid(), 1))
    table_acks.sweep(tmp_path, ["gateway-0"])
    assert [file.name for file in tmp_path.iterdir()] == ["gateway-0.json"]
