"""Which GPUs this machine has: as `nvidia-smi` says, else as the driver lists them, or as somebody declares."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from mizzen.engines.local.gpus.allocation import Device

FIND = -1
"""As the setting `gpus`: find out."""
_DRIVER = Path("/proc/driver/nvidia/gpus")
_PATIENCE = 20.0


def found(declared: int, driver: Path = _DRIVER) -> tuple[Device, ...]:
    """So many as are declared; all there are, with FIND. Blocking."""
    if declared == 0:
        return ()
    there = _asked() or tuple(Device(index) for index, _ in enumerate(_listed(driver)))
    if declared == FIND:
        return there
    known = {device.index: device for device in there}
    return tuple(known.get(index, Device(index)) for index in range(declared))


def _listed(driver: Path) -> list[Path]:
    return sorted(driver.iterdir()) if driver.is_dir() else []


def _asked() -> tuple[Device, ...]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        said = subprocess.run(
            [program, "--query-gpu=index,memory.total", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=_PATIENCE, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ()  # a driver that does not answer: nobody can use a GPU through it
    return tuple(device for line in said.splitlines() if (device := _device(line)) is not None)


def _device(line: str) -> Device | None:
    index, _, memory = (part.strip() for part in line.partition(","))
    if not index.isdecimal():
        return None
    return Device(int(index), int(memory) << 20 if memory.isdecimal() else None)
