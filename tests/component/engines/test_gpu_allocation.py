"""No device is ever given out more than once over, whatever comes and goes."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mizzen.engines.local.gpus import discovery
from mizzen.engines.local.gpus.allocation import Device


def test_devices_are_found_or_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    nowhere = tmp_path / "none"
    assert discovery.find_devices(discovery.AUTO_DETECT, nowhere) == ()
    assert discovery.find_devices(2, nowhere) == (Device(0), Device(1))
    for address in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / "driver" / address).mkdir(parents=True)
    assert discovery.find_devices(discovery.AUTO_DETECT, tmp_path / "driver") == (Device(0), Device(1))
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '0, 16384'\necho '1, [N/A]'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert discovery.find_devices(discovery.AUTO_DETECT, nowhere) == (Device(0, 16 << 30), Device(1))
    assert discovery.find_devices(1, nowhere) == (Device(0, 16 << 30),)
    assert discovery.find_devices(0, nowhere) == ()
    program.write_text("#!/bin/sh\nexit 9\n")
    assert discovery.find_devices(discovery.AUTO_DETECT, nowhere) == ()
