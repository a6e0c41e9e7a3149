"""Quantities of CPU, memory and GPUs, in the notation of Kubernetes: `2`, `500m`, `1Gi`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from mizzen.kinds.schema.findings import Context, Warn
from mizzen.kinds.schema.resource import Part

_UNITS = {
    "m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
}  # fmt: skip
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")


def amount(text: str) -> float:
    """Raises ValueError with a message for the author of `text`."""
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:100]!r} is not a valid quantity; expected a text such as 2, 0.5, 500m, 512Mi or 4Gi")
    return float(found[1]) * _UNITS[found[2] or ""]


def format_bytes(number: int) -> str:
    """A number of bytes as text: `512Mi`, `1.5Gi`."""
    unit = next((unit for unit in ("Gi", "Mi", "Ki") if number >= _UNITS[unit]), "")
    return f"{number / _UNITS[unit]:.4g}{unit}"


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _above_zero(text: str) -> str:
    if amount(text) <= 0:
        raise ValueError("must be above 0")
    return text


def _bytes(text: str) -> str:
    if amount(_above_zero(text)) < 1:
        raise ValueError(f"'{text}' is less than a byte")
    return text


AnyAmount = Annotated[str, BeforeValidator(_text)]
"""A quantity that is passed on unchanged."""

Amount = Annotated[str, BeforeValidator(_text), AfterValidator(_above_zero)]
Bytes = Annotated[str, BeforeValidator(_text), AfterValidator(_bytes)]


class ResourceRequirements(Part):
    cpu: Amount | None = Field(None, description="The CPUs: `2`, `0.5` or `500m`.")
    memory: Bytes | None = Field(None, description="The memory in bytes: `512Mi`, `4Gi`.")
    threads: int | None = Field(None, ge=1, le=1024, description="The number of threads for numeric libraries.")


def _whole_or_part(gpu: float) -> float:
    if gpu > 1 and gpu != int(gpu):
        raise ValueError(f"{gpu} is not valid; expected a share of one device (up to 1), or a number of whole devices")
    return gpu


Gpu = Annotated[float, Field(gt=0, le=64), AfterValidator(_whole_or_part)]
"""A share of one device, or a number of whole devices."""


def gpu_warning(gpu: float | None, at: str, context: Context) -> Iterator[Warn]:
    if gpu is not None and "gpus" not in context.capabilities:
        yield Warn(at, "this engine has no GPUs; it stays not ready")
