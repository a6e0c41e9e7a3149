"""All exceptions of Mizzen. They have no HTTP status codes: `server/http/errors.py` maps them in one table.

Each class has a `reason`, which is sent on the wire, so that a client raises the class that the server raised.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault in a request: its path (`spec.replicas`) and a message."""

    path: str
    message: str
    reason: str = field(default="", compare=False)
    """A machine-readable reason, for Kubernetes clients that expect one."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class MizzenError(Exception):
    """Base of all errors. `hint` says what to do next, if that is known."""

    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str, *, hint: str = "", faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.faults = faults

    def __str__(self) -> str:
        """The message with every fault and the hint, since a traceback prints only this."""
        faults = (str(fault) for fault in self.faults if fault.message not in self.message)
        return "\n".join((self.message, *faults, *([f"hint: {self.hint}"] if self.hint else ())))


class BadRequest(MizzenError):
    """The request cannot be parsed."""

    reason = "BadRequest"


class Invalid(MizzenError):
    """The request can be parsed but is invalid: `faults` lists all faults."""

    reason = "Invalid"

    @classmethod
    def of(cls, what: str, faults: tuple[Fault, ...]) -> Invalid:
        return cls(f"{what} is invalid: " + "; ".join(map(str, faults)), faults=faults)


class Unauthenticated(MizzenError):
    """The caller is not authenticated: the token is missing, wrong, expired or revoked."""

    reason = "Unauthorized"


class Forbidden(MizzenError):
    """The caller is authenticated, but not allowed to do this."""

    reason = "Forbidden"


class NotFound(MizzenError):
    """The object, path or version does not exist."""

    reason = "NotFound"


class AlreadyExists(MizzenError):
    """An object with this name already exists."""

    reason = "AlreadyExists"


class Conflict(MizzenError):
    """The object changed since it was read, or its state does not allow this."""

    reason = "Conflict"


class Expired(MizzenError):
    """The watch or list cannot continue from this position, which is too old. List again."""

    reason = "Expired"


class TooLarge(MizzenError):
    """The request is larger than the limit that the message names."""

    reason = "RequestEntityTooLarge"


class UnsupportedMediaType(MizzenError):
    """This path does not accept the media type of the body."""

    reason = "UnsupportedMediaType"


class Unavailable(MizzenError):
    """Temporarily unavailable: starting, stopping, or nothing is ready. Retry later."""

    reason = "ServiceUnavailable"


class TooManyRequests(Unavailable):
    """The caller has too many requests in flight. Send fewer at a time, and retry later."""

    reason = "TooManyRequests"


class NoRoom(Unavailable):
    """The disk is too full to store this. Free up space, for example by deleting versions."""

    reason = "InsufficientStorage"


class DeadlineExceeded(MizzenError):
    """It took longer than the caller's deadline, or longer than the maximum."""

    reason = "Timeout"


class ModelFailed(MizzenError):
    """The model could not be loaded, or raised an exception during a prediction."""

    reason = "ModelFailed"


class TrainingFailed(MizzenError):
    """A training job failed or was terminated while the caller waited for it. The message has the end of its output."""

    reason = "TrainingFailed"


FAMILY: dict[str, type[MizzenError]] = {
    cls.reason: cls
    for cls in (
        MizzenError, BadRequest, Invalid, Unauthenticated, Forbidden, NotFound, AlreadyExists, Conflict, Expired,
        TooLarge, UnsupportedMediaType, Unavailable, TooManyRequests, NoRoom, DeadlineExceeded, ModelFailed,
        TrainingFailed,
    )
}  # fmt: skip
