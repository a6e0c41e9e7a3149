"""GPUs shared out among replicas: which devices, and how much of each. Pure.

Who holds what is not written down here: it is read from what runs (`Holding`), so that nothing can drift, whoever is
killed when. Shares are counted in ten-thousandths: ten of 0.1 are one device, exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

UNITS = 10_000
"""Of one device."""

VISIBLE = "CUDA_VISIBLE_DEVICES"
SHARE = "MIZZEN_GPU_MEMORY_SHARE"
MEMORY = "MIZZEN_GPU_MEMORY"
HOLDER = "MIZZEN_GPU_HOLDER"
ACCOUNT = frozenset({SHARE, MEMORY, HOLDER})
"""By these it is told who has what. Nobody else may set them."""
HIDDEN = {VISIBLE: ""}
"""For whoever asked for none: what is not counted must not be used."""


@dataclass(frozen=True, slots=True)
class Device:
    index: int
    """As the driver counts them."""
    memory: int | None = None
    """Bytes, where they are known."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What one replica has."""

    key: str
    who: str
    """For people: the server it is of."""
    devices: tuple[int, ...]
    units: int
    """Of each of them."""

    @classmethod
    def of(cls, key: str, environ: Mapping[str, str]) -> Self | None:
        """From the variables that it was started with; None when it has no GPU."""
        devices = tuple(int(one) for one in environ.get(VISIBLE, "").split(",") if one.isdecimal())
        try:
            units = round(float(environ.get(SHARE, "")) * UNITS)
        except (ValueError, OverflowError):  # not a number, or no end of them: nothing of ours
            return None
        return cls(key, environ.get(HOLDER, key), devices, units) if devices and units > 0 else None


def assigned(
    devices: Sequence[Device], held: Iterable[Holding], gpu: float, before: tuple[int, ...] = ()
) -> tuple[int, ...] | None:
    """The devices for a replica that asks for `gpu` beside those that hold some; None when there is not enough.

    Those it had `before`, if they are still free. Else a share goes where the least is left over, so that whole devices
    stay whole; several are given whole.
    """
    number, units = _wanted(gpu)
    left = free(devices, held)
    if len(before) == number and all(left.get(index, 0) >= units for index in before):
        return before
    fitting = sorted((left[index], index) for index in left if left[index] >= units)
    return tuple(sorted(index for _, index in fitting[:number])) if len(fitting) >= number else None


def free(devices: Sequence[Device], held: Iterable[Holding]) -> dict[int, int]:
    """Units that are left of each device. Of one that is no longer there, nothing is."""
    left = {device.index: UNITS for device in devices}
    for holding in held:
        for index in holding.devices:
            if index in left:
                left[index] -= holding.units
    return left


def environment(devices: Sequence[Device], given: tuple[int, ...], gpu: float, who: str) -> dict[str, str]:
    """What a replica is started with that was given these."""
    _, units = _wanted(gpu)
    sizes = [device.memory for device in devices if device.index in given]
    known = [size for size in sizes if size is not None]
    limit = {MEMORY: str(min(known) * units // UNITS)} if known and len(known) == len(given) else {}
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        VISIBLE: ",".join(str(index) for index in given),
        SHARE: f"{units / UNITS:g}",
        HOLDER: who,
        **limit,
    }


def shortage(devices: Sequence[Device], held: Sequence[Holding], gpu: float) -> str:
    """Why nothing was assigned, and who has what."""
    number, units = _wanted(gpu)
    asked = f"{number} whole GPUs" if number > 1 else "a whole GPU" if units == UNITS else f"{units / UNITS:g} of a GPU"
    if number > len(devices):
        return f"it asks for {asked}, and this machine has {len(devices)}"
    left = free(devices, held)
    said = []
    for device in devices:
        having = [f"{one.who} {one.units / UNITS:g}" for one in held if device.index in one.devices]
        rest = f"{max(0, left[device.index]) / UNITS:g} free"
        said.append(f"GPU {device.index} has {rest}" + (f" ({', '.join(sorted(having))})" if having else ""))
    return f"it asks for {asked}: {'; '.join(said)}"


def _wanted(gpu: float) -> tuple[int, int]:
    """How many devices, and units of each."""
    return (int(gpu), UNITS) if gpu > 1 else (1, max(1, round(gpu * UNITS)))
