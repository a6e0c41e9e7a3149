"""The group `mizzen service`: the plane as a systemd service."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mizzen import errors
from mizzen.cli import output
from mizzen.cli.help_format import Group
from mizzen.cli.host.systemd_unit import MARK, UnitFile
from mizzen.cli.output import Format, Printer
from mizzen.cli.parameters import option
from mizzen.cli.session import PlaneSession

service = Group(
    "service",
    "The plane as a systemd service: install, uninstall, status.",
    "mizzen service install --user --data-dir ~/mizzen",
)

SYSTEM: Final = Path("/etc/systemd/system")
_RUNS: Final = Path("/run/systemd/system")
"""Exists exactly if systemd manages this machine."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise typer.BadParameter(f"'{name}' is not a valid service name; expected letters, digits, '-' and '_'")
    return name


User = Annotated[
    bool | None,
    option("Use the systemd of your user, or of the system [default: system, if you are root].", "--user/--system"),
]
Name = Annotated[str, option("Service name; needed for several planes.", metavar="NAME", parser=_check_name)]


@dataclass(frozen=True, slots=True)
class InstalledUnit:
    """A unit file, and the systemd that manages it."""

    name: str
    user: bool

    @property
    def file(self) -> Path:
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        return (home / "systemd" / "user" if self.user else SYSTEM) / f"{self.name}.service"

    def systemctl(self, *words: str) -> tuple[str, ...]:
        return ("systemctl", *(("--user",) if self.user else ()), *words)

    def run_systemctl(self, *words: str) -> str:
        """Run systemctl and return its output. Raises Unavailable if it fails."""
        command = self.systemctl(*words)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            why = done.stderr.strip() or f"exit code {done.returncode}"
            raise errors.Unavailable(
                f"'{' '.join(command)}' failed: {why}", hint=f"journalctl -u {self.name} shows more"
            )
        return done.stdout


@service.command()
def install(
    *,
    user: User = None,
    name: Name = "mizzen",
    run_as: Annotated[
        str | None,
        option("User that runs the service, with --system [default: owner of the data dir].", metavar="USER"),
    ] = None,
    show: Annotated[bool, option("Only print the unit.", "--print")] = False,
    start: Annotated[bool, option("Start the service now, or only enable it.", "--start/--no-start")] = True,
    session: PlaneSession,
) -> None:
    """Install the plane of a data dir as a systemd service. Writes a unit, enables it and starts it.

    The service takes its settings from settings.toml in the data dir. The command never overwrites a unit that Mizzen
    did not write.

    \b
    Example:
      sudo mizzen service install --data-dir /srv/mizzen --run-as mizzen
      mizzen service install --user --data-dir ~/mizzen
      mizzen service install --print
    """
    place = InstalledUnit(name, _is_user_unit(user))
    unit = _build_unit(place, session.data_dir, run_as)
    if show:
        output.write(unit.text(), nl=False)
        return
    _check_ours(place.file)
    _warn_about(unit)
    try:
        place.file.parent.mkdir(parents=True, exist_ok=True)
        place.file.write_text(unit.text())
    except PermissionError as error:
        raise errors.Forbidden(
            f"cannot write {place.file}", hint="run the command with sudo, or install for yourself with --user"
        ) from error
    commands = [("daemon-reload",), ("enable", *(("--now",) if start else ()), name)]
    done = _is_systemd_running()
    if done:
        for command in commands:
            place.run_systemctl(*command)
    result = {"unit": str(place.file), "started": done and start, "data_dir": str(unit.data_dir)}
    session.write_outcome(result, f"wrote {place.file}" + (" and started the service" if done and start else ""))
    if not done:
        output.note("systemd does not manage this machine; on a machine with systemd, run:")
        for command in commands:
            output.note(f"  {' '.join(place.systemctl(*command))}")
    elif place.user:
        output.note("the service stops when your last session ends, unless you run: loginctl enable-linger")


@service.command()
def uninstall(*, user: User = None, name: Name = "mizzen", printer: Printer) -> None:
    """Stop the service and remove its unit. The data dir is kept.

    \b
    Example:
      mizzen service uninstall --user
    """
    place = InstalledUnit(name, _is_user_unit(user))
    exists = place.file.exists()
    if exists:
        _check_ours(place.file)
        if _is_systemd_running():
            place.run_systemctl("disable", "--now", name)
        place.file.unlink()
        if _is_systemd_running():
            place.run_systemctl("daemon-reload")
    text = f"removed {place.file}; the data dir is kept" if exists else f"{place.file} does not exist"
    printer.write_outcome({"unit": str(place.file), "removed": exists}, text)


@service.command()
def status(*, user: User = None, name: Name = "mizzen", printer: Printer) -> None:
    """Show whether the service is installed, enabled and running. 'mizzen status' shows the plane itself.

    \b
    Example:
      mizzen service status --user
    """
    place = InstalledUnit(name, _is_user_unit(user))
    found: dict[str, Any] = {"unit": str(place.file), "installed": place.file.exists()}
    if _is_systemd_running():
        wanted = ("UnitFileState", "ActiveState", "SubState", "MainPID", "NRestarts", "StatusText")
        answer = place.run_systemctl("show", name, *(f"--property={each}" for each in wanted))
        found |= dict(line.partition("=")[::2] for line in answer.splitlines() if "=" in line)
    if printer.form is not Format.TABLE:
        printer.write_data(found)
        return
    for key, value in found.items():
        shown = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
        output.write(f"{key:<14} {shown}")
    if not _is_systemd_running():
        output.note("systemd does not manage this machine, so it is unknown whether the service is enabled and running")


def _build_unit(place: InstalledUnit, data_dir: Path | None, run_as: str | None) -> UnitFile:
    from mizzen.settings import Settings

    settings = Settings.load({"data_dir": data_dir})
    owner = None if place.user else _find_owner(run_as, settings.root)
    if place.user and run_as:
        raise typer.BadParameter("--run-as needs --system: with --user, the service runs as you")
    # -P: do not import modules from the working directory.
    command = (sys.executable, "-P", "-m", "mizzen.cli.main")
    return UnitFile(command, settings.root, owner, settings.stop_timeout)


def _find_owner(run_as: str | None, root: Path) -> str:
    try:
        found = pwd.getpwnam(run_as) if run_as else pwd.getpwuid(root.stat().st_uid if root.exists() else os.getuid())
    except KeyError as error:
        raise errors.NotFound(f"user {run_as} does not exist", hint="useradd --system creates one") from error
    if run_as and root.exists() and root.stat().st_uid != found.pw_uid:
        raise errors.Conflict(f"{root} does not belong to {run_as}", hint=f"chown -R {run_as} {root}")
    return found.pw_name


def _warn_about(unit: UnitFile) -> None:
    if unit.user == "root":
        output.warn("models would run as root: name another user with --run-as")
    from mizzen.settings import Settings

    known = {f"MIZZEN_{setting.name.upper()}" for setting in fields(Settings)} - {"MIZZEN_DATA_DIR"}
    ignored = sorted(known & os.environ.keys())
    if ignored:
        output.warn(f"the service ignores {', '.join(ignored)}: write settings to {unit.data_dir / 'settings.toml'}")


def _check_ours(file: Path) -> None:
    if file.is_symlink() or (file.exists() and MARK.split(";")[0] not in file.read_text(errors="replace")):
        raise errors.Conflict(f"{file} was not written by Mizzen", hint="use another name: --name mizzen-2")


def _is_user_unit(given: bool | None) -> bool:
    return os.geteuid() != 0 if given is None else given


def _is_systemd_running() -> bool:
    return _RUNS.is_dir() and shutil.which("systemctl") is not None
