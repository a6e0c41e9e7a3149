"""The text of the systemd unit that runs a plane. Comments in it explain its lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mizzen.errors import Fault, Invalid

MARK: Final = "# Written by 'mizzen service install'; put changes of your own into a drop-in ('systemctl edit')."
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@=,")


@dataclass(frozen=True, slots=True)
class UnitFile:
    command: tuple[str, ...]
    """The command that runs `mizzen`."""
    data_dir: Path
    user: str | None
    """User that the machine's systemd runs it as; None for a user's own systemd, which runs all units as that user."""
    stop_seconds: float = 1.0

    def text(self) -> str:
        """The unit file. Raises Invalid for a path that a unit cannot contain."""
        where = ("--data-dir", str(self.data_dir))
        system = self.user is not None
        return "\n".join(
            (
                MARK,
                "[Unit]",
                f"Description=Mizzen, a plane for machine-learning models ({_escape(str(self.data_dir))})",
                "After=network.target",
                "",
                "[Service]",
                "# The plane reports when both APIs answer; it gives up by itself after start_timeout.",
                "Type=notify",
                "NotifyAccess=main",
                "TimeoutStartSec=infinity",
                f"ExecStart={_format_command((*self.command, 'up', *where))}",
                f"ExecStop={_format_command((*self.command, 'down', *where))}",
                "# Only the main process gets the signal, and stops the rest in order; systemd kills what is left.",
                "KillMode=mixed",
                f"TimeoutStopSec={round(self.stop_seconds) + 30}",
                "SuccessExitStatus=130",
                "Restart=on-failure",
                "RestartSec=2",
                "# The plane restarts a model that runs out of memory; the others keep running.",
                "OOMPolicy=continue",
                "# Each model gets a cgroup below that of the service, with limits of its own.",
                "Delegate=yes",
                "# Each connection and each replica is a file.",
                "LimitNOFILE=65536",
                "UMask=0077",
                *(_sandbox_lines(str(self.user)) if system else ()),
                "",
                "[Install]",
                f"WantedBy={'multi-user' if system else 'default'}.target",
                "",
            )
        )


def _sandbox_lines(user: str) -> tuple[str, ...]:
    """Restrictions that neither a plane nor a model notices.

    Left out: PrivateTmp, because commands look for the plane's sockets in /tmp; MemoryDenyWriteExecute, because
    frameworks compile code; ProtectHome, because data and environments may be there.
    """
    return (
        f"User={_escape(user)}",
        "NoNewPrivileges=yes",
        "ProtectSystem=full",
        "ProtectKernelTunables=yes",
        "ProtectKernelModules=yes",
        "ProtectControlGroups=yes",
        "RestrictSUIDSGID=yes",
        "RestrictRealtime=yes",
        "LockPersonality=yes",
    )


def _format_command(words: Sequence[str]) -> str:
    """Quote a command line for systemd: spaces separate words; `%` is special, and so is `$` except in the program."""
    program, *others = words
    if set(program) & set("\"'\\"):
        raise Invalid.of(
            "unit",
            (Fault("command", f"systemd cannot run {program!r}: move it to a path without quotes and backslashes"),),
        )
    return " ".join((_quote(_escape(program)), *(_quote(_escape(word).replace("$", "$$")) for word in others)))


def _quote(text: str) -> str:
    if text and set(text) <= _PLAIN:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escape(text: str) -> str:
    if not text.isprintable():
        raise Invalid.of("unit", (Fault("data_dir", f"{text!r} cannot be used in a systemd unit"),))
    return text.replace("%", "%%")
