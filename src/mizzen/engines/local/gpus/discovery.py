"""Discovery of this machine's GPUs: by `nvidia-smi`, or else from the driver's list, or as the settings declare."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from mizzen.engines.local.gpus.allocation import Device

AUTO_DETECT = -1
"""The value of the setting `gpus` for automatic detection."""
_DRIVER = Path("/proc/driver/nvidia/gpus")
_PATIENCE = 20.0


def find_devices(declared: int, driver: Path = _DRIVER) -> tuple[Device, ...]:
    """As many as are declared; with AUTO_DETECT, all of this machine. Blocking."""
    if declared == 0:
        return ()
    listed = sorted(driver.iterdir()) if driver.is_dir() else []
    there = _query_nvidia_smi() or tuple(Device(index) for index, _ in enumerate(listed))
    if declared == AUTO_DETECT:
        return there
    known = {device.index: device for device in there}
    return tuple(known.get(index, Device(index)) for index in range(declared))


def _query_nvidia_smi() -> tuple[Device, ...]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        output = subprocess.run(
            [program, "--query-gpu=index,memory.total", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=_PATIENCE, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ()  # a driver that does not respond is of no use to any process
    return tuple(device for line in output.splitlines() if (device := _device(line)) is not None)


def _device(line: str) -> Device | None:
    index, _, memory = (part.strip() for part in line.partition(","))
    if not index.isdecimal():
        return None
    return Device(int(index), int(memory) << 20 if memory.isdecimal() else None)
