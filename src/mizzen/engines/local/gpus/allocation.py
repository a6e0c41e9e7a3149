"""Allocation of GPUs to replicas: which devices, and which share of each. Pure.

Allocations are not stored here: they are read from running processes (`Holding`), so that they cannot drift when a
process is killed. Shares are counted in ten-thousandths: ten shares of 0.1 are exactly one device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

UNITS = 10_000
"""Units of one device."""

VISIBLE = "CUDA_VISIBLE_DEVICES"
SHARE = "MIZZEN_GPU_MEMORY_SHARE"
MEMORY = "MIZZEN_GPU_MEMORY"
HOLDER = "MIZZEN_GPU_HOLDER"
ACCOUNTING = frozenset({SHARE, MEMORY, HOLDER})
"""These variables record allocations. Specs must not set them."""
HIDDEN = {VISIBLE: ""}
"""For replicas that requested no GPU: they must not use what is not counted."""


@dataclass(frozen=True, slots=True)
class Device:
    index: int
    """In the driver's numbering."""
    memory: int | None = None
    """Bytes, if known."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The GPUs of one replica."""

    key: str
    holder: str
    """The server that it belongs to, for messages."""
    devices: tuple[int, ...]
    units: int
    """Units of each of these devices."""

    @classmethod
    def of(cls, key: str, environ: Mapping[str, str]) -> Self | None:
        """From the variables that a process was started with; None when it has no GPU."""
        devices = tuple(int(one) for one in environ.get(VISIBLE, "").split(",") if one.isdecimal())
        try:
            units = round(float(environ.get(SHARE, "")) * UNITS)
        except (ValueError, OverflowError):  # not a number, or infinite: not one of our variables
            return None
        return cls(key, environ.get(HOLDER, key), devices, units) if devices and units > 0 else None


def assign(
    devices: Sequence[Device], held: Iterable[Holding], gpu: float, before: tuple[int, ...] = ()
) -> tuple[int, ...] | None:
    """The devices for a replica that requests `gpu`, given all other holdings; None when there is not enough.

    These are the devices that it had `before`, if they are still free. Otherwise a share goes to the device with the
    least free units (best fit), so that whole devices stay free. A request for several devices gets whole ones.
    """
    number, units = _units_of(gpu)
    left = free_units(devices, held)
    if len(before) == number and all(left.get(index, 0) >= units for index in before):
        return before
    fitting = sorted((left[index], index) for index in left if left[index] >= units)
    return tuple(sorted(index for _, index in fitting[:number])) if len(fitting) >= number else None


def free_units(devices: Sequence[Device], held: Iterable[Holding]) -> dict[int, int]:
    """Free units by device. A device that no longer exists has none."""
    left = {device.index: UNITS for device in devices}
    for holding in held:
        for index in holding.devices:
            if index in left:
                left[index] -= holding.units
    return left


def build_env(devices: Sequence[Device], assigned: tuple[int, ...], gpu: float, holder: str) -> dict[str, str]:
    """The variables of a replica that got these devices."""
    _, units = _units_of(gpu)
    sizes = [device.memory for device in devices if device.index in assigned]
    known = [size for size in sizes if size is not None]
    limit = {MEMORY: str(min(known) * units // UNITS)} if known and len(known) == len(assigned) else {}
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        VISIBLE: ",".join(str(index) for index in assigned),
        SHARE: f"{units / UNITS:g}",
        HOLDER: holder,
        **limit,
    }


def explain_shortage(devices: Sequence[Device], held: Sequence[Holding], gpu: float) -> str:
    """Why nothing was assigned, and which replicas hold what."""
    number, units = _units_of(gpu)
    request = (
        f"{number} whole GPUs" if number > 1 else "a whole GPU" if units == UNITS else f"{units / UNITS:g} of a GPU"
    )
    if number > len(devices):
        return f"it requests {request}, but this machine has {len(devices)}"
    left = free_units(devices, held)
    parts = []
    for device in devices:
        having = [f"{one.holder} {one.units / UNITS:g}" for one in held if device.index in one.devices]
        rest = f"{max(0, left[device.index]) / UNITS:g} free"
        parts.append(f"GPU {device.index} has {rest}" + (f" ({', '.join(sorted(having))})" if having else ""))
    return f"it requests {request}: {'; '.join(parts)}"


def _units_of(gpu: float) -> tuple[int, int]:
    """The number of devices, and the units of each."""
    return (int(gpu), UNITS) if gpu > 1 else (1, max(1, round(gpu * UNITS)))
