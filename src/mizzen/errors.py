"""The whole exception family. No HTTP numbers: `server/http/errors.py` holds the one table of those.

Each class has a `reason`, the word that travels on the wire, so that a client raises the class the server raised.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with what somebody sent: where (`spec.replicas`) and what."""

    path: str
    message: str
    reason: str = field(default="", compare=False)
    """A word for programs, where one of Kubernetes' clients looks for it."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class MizzenError(Exception):
    """Something Mizzen can explain. `hint` says what to do next, where we know it."""

    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str, *, hint: str = "", faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.faults = faults

    def __str__(self) -> str:
        """With every fault and the hint: who prints only this, as a traceback does, must learn what to mend."""
        faults = (str(fault) for fault in self.faults if fault.message not in self.message)
        return "\n".join((self.message, *faults, *([f"hint: {self.hint}"] if self.hint else ())))


class BadRequest(MizzenError):
    """What was sent cannot be read at all."""

    reason = "BadRequest"


class Invalid(MizzenError):
    """What was sent can be read but breaks rules: `faults` lists all of them."""

    reason = "Invalid"

    @classmethod
    def of(cls, what: str, faults: tuple[Fault, ...]) -> Invalid:
        return cls(f"{what} is invalid: " + "; ".join(map(str, faults)), faults=faults)


class Unauthenticated(MizzenError):
    """Nobody knows who asks: a token is missing, wrong, expired or revoked."""

    reason = "Unauthorized"


class Forbidden(MizzenError):
    """It is known who asks, and they may not do this."""

    reason = "Forbidden"


class NotFound(MizzenError):
    """There is no such object, path or version."""

    reason = "NotFound"


class AlreadyExists(MizzenError):
    """The name is taken."""

    reason = "AlreadyExists"


class Conflict(MizzenError):
    """The object changed since it was read, or its state forbids this."""

    reason = "Conflict"


class Expired(MizzenError):
    """The place a watch or a listing wants to go on from is no longer kept: list again."""

    reason = "Expired"


class TooLarge(MizzenError):
    """What was sent is larger than the limit that the message names."""

    reason = "RequestEntityTooLarge"


class UnsupportedMediaType(MizzenError):
    """The body is of a type that this path does not read."""

    reason = "UnsupportedMediaType"


class Unavailable(MizzenError):
    """Not now: starting, stopping, or nothing ready. Worth trying again."""

    reason = "ServiceUnavailable"


class NoRoom(Unavailable):
    """The disk is too full to take this. Deleting something helps."""

    reason = "InsufficientStorage"


class DeadlineExceeded(MizzenError):
    """It took longer than the caller, or the ceiling, allows."""

    reason = "Timeout"


class ModelFailed(MizzenError):
    """The model itself could not load, or raised while it predicted."""

    reason = "ModelFailed"


class TrainingFailed(MizzenError):
    """A job set that was waited for has failed, or was ended. The message says how, with what it printed last."""

    reason = "TrainingFailed"


FAMILY: dict[str, type[MizzenError]] = {
    cls.reason: cls
    for cls in (
        MizzenError, BadRequest, Invalid, Unauthenticated, Forbidden, NotFound, AlreadyExists, Conflict, Expired,
        TooLarge, UnsupportedMediaType, Unavailable, NoRoom, DeadlineExceeded, ModelFailed, TrainingFailed,
    )
}  # fmt: skip
