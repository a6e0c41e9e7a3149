"""The unit with which systemd runs a plane: its text. What each line is for stands in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mizzen.errors import Fault, Invalid

MARK: Final = "# Written by 'mizzen service install'; put changes of your own into a drop-in ('systemctl edit')."
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@=,")


@dataclass(frozen=True, slots=True)
class Unit:
    command: tuple[str, ...]
    """What runs `mizzen`."""
    data_dir: Path
    user: str | None
    """As whom the system's own systemd runs it; None: it is a user's systemd, which runs all as that user."""
    stop_seconds: float = 1.0

    def text(self) -> str:
        """Invalid for paths that no unit can hold."""
        where = ("--data-dir", str(self.data_dir))
        system = self.user is not None
        return "\n".join(
            (
                MARK,
                "[Unit]",
                f"Description=Mizzen, a plane for machine-learning models ({_escaped(str(self.data_dir))})",
                "After=network.target",
                "",
                "[Service]",
                "# It says so itself when both APIs answer; until then it gives up by itself, after start_timeout.",
                "Type=notify",
                "NotifyAccess=main",
                "TimeoutStartSec=infinity",
                f"ExecStart={_line((*self.command, 'up', *where))}",
                f"ExecStop={_line((*self.command, 'down', *where))}",
                "# What is told to stop is the one who stops the rest in order; who is left after that is killed.",
                "KillMode=mixed",
                f"TimeoutStopSec={round(self.stop_seconds) + 30}",
                "SuccessExitStatus=130",
                "Restart=on-failure",
                "RestartSec=2",
                "# One model that takes too much memory is started again by the plane; the others go on.",
                "OOMPolicy=continue",
                "# Each connection and each replica is a file.",
                "LimitNOFILE=65536",
                "UMask=0077",
                *(_confined(str(self.user)) if system else ()),
                "",
                "[Install]",
                f"WantedBy={'multi-user' if system else 'default'}.target",
                "",
            )
        )


def _confined(user: str) -> tuple[str, ...]:
    """What no plane and no model needs. Not among them: PrivateTmp, as commands outside look for its sockets there;
    MemoryDenyWriteExecute, as frameworks compile; ProtectHome, as data and environments are kept there."""
    return (
        f"User={_escaped(user)}",
        "NoNewPrivileges=yes",
        "ProtectSystem=full",
        "ProtectKernelTunables=yes",
        "ProtectKernelModules=yes",
        "ProtectControlGroups=yes",
        "RestrictSUIDSGID=yes",
        "RestrictRealtime=yes",
        "LockPersonality=yes",
    )


def _line(words: Sequence[str]) -> str:
    """As systemd reads it back: a space ends a word, `%` stands for other things, and so does `$` but in the first."""
    program, *others = words
    if set(program) & set("\"'\\"):
        raise Invalid.of("unit", (Fault("command", f"{program!r} cannot be run by systemd: move it"),))
    return " ".join((_quoted(_escaped(program)), *(_quoted(_escaped(word).replace("$", "$$")) for word in others)))


def _quoted(text: str) -> str:
    if text and set(text) <= _PLAIN:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escaped(text: str) -> str:
    if not text.isprintable():
        raise Invalid.of("unit", (Fault("data_dir", f"{text!r} cannot stand in a unit of systemd"),))
    return text.replace("%", "%%")
