"""service install, uninstall, status: the plane as a service of systemd."""

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
from mizzen.cli.host.systemd_unit import MARK, Unit
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Output

service = Group(
    name="service",
    help="The plane as a service of systemd: install, uninstall, status.\n\n\b\nExample:\n"
    "  mizzen service install --user --data-dir ~/mizzen",
    no_args_is_help=True,
)

SYSTEM: Final = Path("/etc/systemd/system")
_RUNS: Final = Path("/run/systemd/system")
"""There exactly when systemd runs this machine."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise typer.BadParameter(f"'{name}' is no name of a service: letters, digits, '-' and '_'")
    return name


User = Annotated[
    bool | None,
    typer.Option(
        "--user/--system", help="Of your own systemd, or of the machine's [default: the machine's, if you are root]."
    ),
]
Name = Annotated[str, typer.Option(metavar="NAME", parser=_named, help="Of the service; for several planes.")]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a unit is kept, and who is asked about it."""

    name: str
    user: bool

    @property
    def file(self) -> Path:
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        return (home / "systemd" / "user" if self.user else SYSTEM) / f"{self.name}.service"

    def systemctl(self, *words: str) -> tuple[str, ...]:
        return ("systemctl", *(("--user",) if self.user else ()), *words)

    def ask(self, *words: str) -> str:
        """What it prints. Unavailable when it fails."""
        command = self.systemctl(*words)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip() or f"exit code {done.returncode}"
            raise errors.Unavailable(
                f"'{' '.join(command)}' failed: {said}", hint=f"journalctl -u {self.name} says more"
            )
        return done.stdout


@service.command()
def install(
    *,
    user: User = None,
    name: Name = "mizzen",
    run_as: Annotated[
        str | None,
        typer.Option(metavar="USER", help="As whom the machine's systemd runs it [default: the data dir's owner]."),
    ] = None,
    show: Annotated[bool, typer.Option("--print", help="Only print the unit.")] = False,
    start: Annotated[bool, typer.Option("--start/--no-start", help="Enable and start it, too.")] = True,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Write a unit of systemd that runs the plane of a data dir, enable it and start it.

    Settings are those of settings.toml in the data dir. A unit of that name which is not ours is left alone.

    \b
    Example:
      sudo mizzen service install --data-dir /srv/mizzen --run-as mizzen
      mizzen service install --user --data-dir ~/mizzen
      mizzen service install --print
    """
    place = Place(name, _users(user))
    unit = _unit(place, data_dir, run_as)
    if show:
        output.say(unit.text(), nl=False)
        return
    _check_ours(place.file)
    _warn(unit)
    try:
        place.file.parent.mkdir(parents=True, exist_ok=True)
        place.file.write_text(unit.text())
    except PermissionError as error:
        raise errors.Forbidden(
            f"{place.file} cannot be written", hint="run it with sudo, or install it for yourself with --user"
        ) from error
    commands = [("daemon-reload",), ("enable", *(("--now",) if start else ()), name)]
    done = _running()
    if done:
        for command in commands:
            place.ask(*command)
    told = {"unit": str(place.file), "started": done and start, "data_dir": str(unit.data_dir)}
    output.outcome(told, form, f"{place.file} is written" + (" and the service runs" if done and start else ""))
    if not done:
        output.note("systemd does not run this machine; where it does:")
        for command in commands:
            output.note(f"  {' '.join(place.systemctl(*command))}")
    elif place.user:
        output.note("it ends with your last session, unless: loginctl enable-linger")


@service.command()
def uninstall(*, user: User = None, name: Name = "mizzen", form: Output = Format.TABLE) -> None:
    """Stop the service and remove its unit. The data dir stays.

    \b
    Example:
      mizzen service uninstall --user
    """
    place = Place(name, _users(user))
    there = place.file.exists()
    if there:
        _check_ours(place.file)
        if _running():
            place.ask("disable", "--now", name)
        place.file.unlink()
        if _running():
            place.ask("daemon-reload")
    said = f"{place.file} is removed; the data dir stays" if there else f"there is no {place.file}"
    output.outcome({"unit": str(place.file), "removed": there}, form, said)


@service.command()
def status(*, user: User = None, name: Name = "mizzen", form: Output = Format.TABLE) -> None:
    """Show whether the service is installed, enabled and running. 'mizzen status' shows the plane itself.

    \b
    Example:
      mizzen service status --user
    """
    place = Place(name, _users(user))
    found: dict[str, Any] = {"unit": str(place.file), "installed": place.file.exists()}
    if _running():
        wanted = ("UnitFileState", "ActiveState", "SubState", "MainPID", "NRestarts", "StatusText")
        answer = place.ask("show", name, *(f"--property={each}" for each in wanted))
        found |= dict(line.partition("=")[::2] for line in answer.splitlines() if "=" in line)
    if form is not Format.TABLE:
        output.data(found, form)
        return
    for key, value in found.items():
        shown = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
        output.say(f"{key:<14} {shown}")
    if not _running():
        output.note("systemd does not run this machine: whether it is enabled and runs, nobody can say")


def _unit(place: Place, data_dir: Path | None, run_as: str | None) -> Unit:
    from mizzen.settings import Settings

    settings = Settings.load({"data_dir": data_dir})
    owner = None if place.user else _owner(run_as, settings.root)
    if place.user and run_as:
        raise typer.BadParameter("--run-as is for a service of the machine: your own runs as you")
    # -P: whatever lies in the folder it is started in is not what is run.
    command = (sys.executable, "-P", "-m", "mizzen.cli.main")
    return Unit(command, settings.root, owner, settings.stop_timeout)


def _owner(run_as: str | None, root: Path) -> str:
    try:
        found = pwd.getpwnam(run_as) if run_as else pwd.getpwuid(root.stat().st_uid if root.exists() else os.getuid())
    except KeyError as error:
        raise errors.NotFound(f"there is no user {run_as}", hint="useradd --system makes one") from error
    if run_as and root.exists() and root.stat().st_uid != found.pw_uid:
        raise errors.Conflict(f"{root} is not {run_as}'s", hint=f"chown -R {run_as} {root}")
    return found.pw_name


def _warn(unit: Unit) -> None:
    if unit.user == "root":
        output.warn("models would run as root: give a user of its own with --run-as")
    from mizzen.settings import Settings

    known = {f"MIZZEN_{setting.name.upper()}" for setting in fields(Settings)} - {"MIZZEN_DATA_DIR"}
    given = sorted(known & os.environ.keys())
    if given:
        output.warn(f"{', '.join(given)} is not for the service: write settings to {unit.data_dir / 'settings.toml'}")


def _check_ours(file: Path) -> None:
    if file.is_symlink() or (file.exists() and MARK.split(";")[0] not in file.read_text(errors="replace")):
        raise errors.Conflict(f"{file} was not written by Mizzen", hint="use another name: --name mizzen-2")


def _users(given: bool | None) -> bool:
    return os.geteuid() != 0 if given is None else given


def _running() -> bool:
    return _RUNS.is_dir() and shutil.which("systemctl") is not None
