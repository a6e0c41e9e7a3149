"""The supervisor's protocol and its message types.

One JSON object per line over the unix socket `run/supervisor.sock` (mode 0600). A request is `{"op": …, "id": any}`
with the fields below; its response has the same `id` and either the fields below or `{"error": text}`. Requests on
one connection are answered in order.

    key {"key"}              -> {}                        the content of `run/supervisor.key`; must be the first request
    info                     -> {"pid", "start", "listeners": {name: {"host", "port"}}, "data_dir", "tether": TIE}
    apply {"process": SPEC}  -> {"process": VIEW}         idempotent; the same key with another fingerprint: the old
                                                          one is stopped, then the new one started; failed with the
                                                          same fingerprint stays failed; secrets and varying values
                                                          are always updated; a process waiting for secrets starts
    remove {"key"}           -> {"process": VIEW | null}  null: it is gone; else it is being stopped; "grace": seconds
                                                          that it has to exit by itself
    list {"prefix": ""}      -> {"processes": [VIEW]}     those whose key has this prefix
    watch                    -> {"processes": [VIEW]}     all current ones; from now on this connection also gets
                                                          {"event": "process", "process": VIEW} for each change
    tether                   -> {}   from now on the end of this connection stops everything gracefully
    untether                 -> {}   closing it no longer stops anything, and no tether is awaited
    stop {"graceful": bool}  -> {"left": [key]}           sent when everything has ended; then the supervisor exits;
                                                          with "leave", running lasting processes keep running

TIE is "none", "held", or "awaited". A supervisor awaits a tether if it was started for one or its killed predecessor
had one; it stops everything unless a client opens one soon.

Before a stop begins, every connection gets `{"event": "stopping"}`, so that clients do not take the exit for a crash.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Self

from mizzen.confinement.spec import Confinement
from mizzen.supervisor.data_dir import read_json, write_json
from mizzen.supervisor.processes.log_rotation import LogRetention

MAX_LINE = 4 << 20
"""Maximum line length in bytes. The arguments and environment of a process must fit."""

EXIT_PERMANENT = 78
"""Exit code of a process for which a restart is useless (sysexits EX_CONFIG)."""

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(4 << 20), "MALLOC_TRIM_THRESHOLD_": str(16 << 20)}
"""Environment for processes that carry large bodies: glibc keeps some MB of freed memory. Otherwise the kernel must
allocate fresh pages for each body, a fifth of the total work on it."""


#                     ┌──────── exit, restart ────────┐
#                     v                               │
#   (applied) ──> waiting ──spawn──> running ─────────┤
#                     │                 │             └── exit 78, or restart never ──> failed
#                     │                 │ stop, or another spec                           │
#                     │                 v                                                 │
#                     │             stopping ──exit──> gone (or waiting: the other spec)  │
#                     └──────stop──────────────────────> gone <───────────stop────────────┘
class State(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    FAILED = "failed"
    STOPPING = "stopping"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """The process to run. `env` is added to the supervisor's own environment; `log` takes stdout and stderr."""

    key: str
    argv: tuple[str, ...]
    log: str
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    restart: Literal["always", "never"] = "always"
    permanent_exit: tuple[int, ...] = (EXIT_PERMANENT,)
    grace: float = 10.0
    """Seconds between TERM and KILL."""
    termination_log: str = ""
    """A file for the process's exit message, which becomes the view's message."""
    listeners: bool = False
    """Inherits the listening sockets: MIZZEN_LISTENERS maps their names to descriptors."""
    rank: int = 1
    """When everything stops, lower ranks stop first."""
    lasting: bool = False
    """It works on its own and has no callers that wait for responses. When everything stops, it gets TERM at once,
    regardless of its rank. A stop with "leave" keeps such processes running for the next supervisor to adopt."""
    memory: int | None = None
    """Maximum bytes of data, above which allocations fail. Where the machine can, also of all its descendants together:
    above that the kernel ends it."""
    pids: int | None = None
    """Maximum processes and threads, of all its descendants together, where the machine can limit them."""
    cpu: float | None = None
    """Maximum CPUs that it uses, all its descendants together, where the machine can limit them. This and `pids` are
    not part of the fingerprint: a new value applies at once."""
    varying: Mapping[str, str] = field(default_factory=dict)
    """Variables whose values depend on the time of the start, added before `env`. They are not part of the fingerprint:
    a new value applies from the next start on."""
    confinement: Confinement | None = None
    """It runs users' code, and may reach only this. None: it is Mizzen's own, and gets the supervisor's environment."""
    secret_names: tuple[str, ...] = ()
    """Variables required for a start. Their values are in `secrets`, once a client has sent them."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Added to the environment like `env`, but kept only in the memory of the supervisor and the process: never in a
    file, log or fingerprint. A new value applies from the next start on."""

    @property
    def complete(self) -> bool:
        """Whether all secrets are known. False in a new supervisor until a client sends them again."""
        return set(self.secret_names) <= self.secrets.keys()

    @property
    def fingerprint(self) -> str:
        lasting = {name: value for name, value in self.to_json().items() if name not in ("varying", "pids", "cpu")}
        return hashlib.sha256(json.dumps(lasting, sort_keys=True).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Returns the form for storage: without the values of secrets."""
        written = asdict(self) | {"grace": float(self.grace)}
        del written["secrets"]
        written["confinement"] = self.confinement.to_json() if self.confinement is not None else None
        for name in ("secret_names", "memory", "pids", "cpu", "varying", "lasting", "confinement"):
            if not written[name]:  # a process without any keeps the fingerprint it was started with
                del written[name]
        return written

    def to_wire(self) -> dict[str, Any]:
        """Returns the form sent to a supervisor, with secrets, over a socket that only its owner can open."""
        return self.to_json() | {"secrets": dict(self.secrets)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Raises ValueError that says what is wrong."""
        unknown = data.keys() - {each.name for each in fields(cls)}
        if unknown:
            raise ValueError(f"a process has no field {', '.join(sorted(unknown))}")
        if not _KEY.fullmatch(str(data.get("key", ""))):
            raise ValueError(
                f"{data.get('key')!r} is not a valid key; expected letters, digits, '.', '_' and '-', at most 128"
            )
        if not data.get("argv") or not data.get("log"):
            raise ValueError("a process needs argv and log")
        if data.get("restart", "always") not in ("always", "never"):
            raise ValueError(f"restart must be always or never, not {data['restart']!r}")
        secrets = data.get("secrets", {})
        if not isinstance(secrets, dict) or not all(isinstance(value, str) for value in secrets.values()):
            raise ValueError("secrets must be texts by name")
        memory = data.get("memory")
        if memory is not None and (not isinstance(memory, int) or memory < 1):
            raise ValueError(f"memory must be a number of bytes, not {memory!r}")
        for name, kind in (("pids", int), ("cpu", int | float)):
            limit = data.get(name)
            if limit is not None and (not isinstance(limit, kind) or limit <= 0):
                raise ValueError(f"{name} must be a number above 0, not {limit!r}")
        listed = {
            "argv": tuple(data["argv"]),
            "permanent_exit": tuple(data.get("permanent_exit", (EXIT_PERMANENT,))),
            "secret_names": tuple(data.get("secret_names", ())),
        }
        return cls(**{**data, **listed, "confinement": Confinement.from_json(data.get("confinement"))})


@dataclass(frozen=True, slots=True)
class ProcessView:
    """The observed state of a process. `exit_code`, `exit_time` and `message` are those of the last exit."""

    key: str
    state: State
    fingerprint: str
    pid: int | None = None
    start: str = ""
    """Opaque start time of the pid: a reused pid has a different one."""
    restarts: int = 0
    exit_code: int | None = None
    """128 + s if signal s ended it; None if unknown, as for an adopted process."""
    exit_time: float | None = None
    message: str = ""
    reason: str = ""
    """`OutOfMemory` if the kernel ended it, or one of its descendants, for memory; else empty."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "state": State(data["state"])})


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket that the supervisor holds. Port 0: a free port, kept across restarts."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Boot:
    """`run/boot.json`: the listeners and processes that a supervisor of this data dir starts with."""

    listeners: tuple[Listener, ...] = ()
    processes: tuple[ProcessSpec, ...] = ()
    stop_timeout: float = 1.0
    """Seconds that all processes together have to exit after a stop request, before KILL."""
    logs: LogRetention = LogRetention()  # noqa: RUF009 - frozen
    release: str = ""
    """The version of Mizzen that wrote it. Informational only."""

    def write(self, path: Path) -> None:
        processes = [process.to_json() for process in self.processes]
        write_json(path, asdict(self) | {"processes": processes})

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads the file; an absent one gives an empty Boot. Raises ValueError that says what is wrong."""
        data = read_json(path) or {}
        try:
            return cls(
                listeners=tuple(Listener(**listener) for listener in data.get("listeners", ())),
                processes=tuple(ProcessSpec.from_json(process) for process in data.get("processes", ())),
                stop_timeout=float(data.get("stop_timeout", 1.0)),
                logs=LogRetention(**data.get("logs", {})),
                release=str(data.get("release", "")),
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
