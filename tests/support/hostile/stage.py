"""A plane with something to steal: secrets of its operator, another model, and what attackers know about both."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support import commands, planes
from tests.support.hostile import programs
from tests.support.training import Trainer

SECRET = "operators-secret-48151623"
_VICTIM = "import numpy\n\ndef predict(inputs):\n    return {'y': numpy.array([4.0])}\n"
_BIND, _REC, _PRIVATE, _NEWNS = 4096, 16384, 1 << 18, 0x00020000


@dataclass(frozen=True, slots=True)
class Stage:
    plane: planes.TestPlane
    home: Path
    """The home of the plane's user."""
    user: str = ""
    """The ordinary user that the plane runs as; empty: that of the tests."""
    targets: programs.Targets | None = None

    def cli(self, *words: str, check: bool = True, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("MIZZEN_")}
        environ |= {"MIZZEN_DATA_DIR": str(self.plane.data_dir), "HOME": str(self.home), "COLUMNS": "200"}
        environ |= {"OPERATOR_SECRET": SECRET, "PYTHONDONTWRITEBYTECODE": "1"}
        environ |= {"TMPDIR": str(self.home)} if self.user else {}
        done = subprocess.run(
            [sys.executable, "-P", "-m", "mizzen.cli.main", *words],
            env=environ | {"PYTHONPATH": str(commands.ROOT / "src")},
            cwd=cwd or self.home,
            preexec_fn=_becomes(self.user) if self.user else None,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert not check or done.returncode == 0, f"mizzen {' '.join(words)}: {done.stdout}\n{done.stderr}"
        return done

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.cli("status", "-o", "json").stdout)
        return found

    def deploy(self, source: Path, name: str, *words: str) -> None:
        """Trusted, because an admin deploys it; it may never be ready."""
        self.cli("deploy", str(source), "--name", name, "--no-wait", *words)

    def report_of(self, model: str) -> dict[str, Any]:
        """What the hostile model of this name printed."""
        return self.report_in(lambda: self.cli("logs", model, check=False).stdout, model)

    def report_in(self, log: Callable[[], str], what: str) -> dict[str, Any]:
        last = [""]

        def look() -> dict[str, Any]:
            last[0] = log()
            return programs.found_in(last[0])

        try:
            return planes.wait_until(look, f"{what} has attacked", 90)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{last[0][-3000:]}") from error

    def train(self, model: str) -> dict[str, Any]:
        assert self.targets is not None
        job = Trainer(self.plane, model).script(programs.source(self.targets))
        job.ended()
        return self.report_in(job.logs, "the job")


@contextlib.contextmanager
def running(folder: Path, *flags: str, user: str = "", settings: str = "") -> Iterator[Stage]:
    """`user`: an ordinary user whom the plane runs as, which only root can do."""
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text(SECRET)
    (home / "notes.txt").write_text(SECRET)
    data = folder / "data"
    data.mkdir(mode=0o700)
    (data / "settings.toml").write_text(settings)
    if user:
        found = pwd.getpwnam(user)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, found.pw_uid, found.pw_gid)
    stage = Stage(planes.TestPlane(data, "", "", "", ""), home, user)
    try:
        stage.cli("up", *planes.FREE_PORTS, *flags)
        status = stage.status()
        names = ("control_url", "inference_url", "tls_url", "grpc_address")
        stage = replace(stage, plane=planes.TestPlane(data, *(status[name] for name in names)))
        with _decoys() as (abstract, shared):
            yield replace(stage, targets=_targets(stage, folder, abstract, shared))
    except BaseException:
        for log in sorted((data / "logs").glob("*.log")):
            sys.stderr.write(f"---- {log.name}\n{log.read_text(errors='replace')[-3000:]}\n")
        raise
    finally:
        stage.cli("down", check=False)
        planes.end_all(data)


@contextlib.contextmanager
def folder_for(user: str) -> Iterator[Path]:
    """A folder that an ordinary user can reach; those of pytest are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="mzuser", dir=Path(os.environ["TMPDIR"]).parent))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _targets(stage: Stage, folder: Path, abstract: str, shared: str) -> programs.Targets:
    """What an attacker may know at best."""
    plane = stage.plane
    code = folder / "victim"
    code.mkdir()
    (code / "model.py").write_text(_VICTIM)
    stage.cli("deploy", str(code), "--name", "victim", "--entrypoint", "model:predict")
    status = stage.status()
    victim = next(each for each in status["processes"] if each.get("model") == "victim")
    data, run = plane.data_dir, (plane.data_dir / "run").resolve()
    work = data / "work" / victim["key"].rpartition(".")[0]
    [vsocket] = [path for path in run.rglob("*.sock") if path.name != "supervisor.sock"]
    vkey = vsocket.with_name(f"{vsocket.name}.key")
    control, inference = urlsplit(plane.control_url), urlsplit(plane.inference_url)
    files = {
        "the admin token": data / "admin-token",
        "the secret key": data / "secret-key",
        "the key of the CA": next(data.rglob("*ca*.key"), next(data.rglob("*.key"), data / "ca.key")),
        "the database": data / "mizzen.db",
        "a blob": next(path for path in (data / "blobs").rglob("*") if path.is_file() and len(path.name) == 64),
        "another model's code": work / "files" / "model.py",
        "the access file": next(data.rglob("access.json"), data / "access.json"),
        "the table": next(data.rglob("table.json"), data / "table.json"),
        "the log of the supervisor": data / "logs" / "supervisor.log",
        "the supervisor's key": run / "supervisor.key",
        "another model's key": vkey,
        "a key of the operator": stage.home / ".ssh" / "id_ed25519",
        "a file of the operator": stage.home / "notes.txt",
    }
    folders = {
        "the data dir": data, "the work folders": data / "work", "another model's scratch": work / "scratch",
        "the logs": data / "logs", "the blobs": data / "blobs", "the run folder": run,
        "the folder of another model's socket": vsocket.parent, "the operator's home": stage.home,
        "the temporary folder": Path(tempfile.gettempdir()).parent, "keys of the machine": Path("/etc/ssl/private"),
    }  # fmt: skip
    pids = {
        key: next(each["pid"] for each in status["processes"] if each["key"] == key) for key in ("plane", "gateway-0")
    }
    return {
        "files": {name: str(path) for name, path in files.items() if path.exists()},
        "folders": {name: str(path) for name, path in folders.items()},
        "pids": pids | {"the supervisor": status["supervisor_pid"], "another model": victim["pid"]},
        "sockets": {"another model": str(vsocket)},
        "supervisor": str(run / "supervisor.sock"),
        "requests": {
            "the users": [control.hostname, control.port, "GET", "/user"],
            "the audit log": [control.hostname, control.port, "GET", "/audit"],
            "a token": [control.hostname, control.port, "POST", "/user/admin/token"],
            "a new model": [control.hostname, control.port, "POST", "/model"],
            "the secrets": [control.hostname, control.port, "GET", "/secret"],
            "a prediction": [inference.hostname, inference.port, "POST", "/v2/models/victim/infer"],
        },
        "token": str(data / "admin-token"),
        "data_dir": str(data),
        "secret": SECRET,
        "abstract": abstract,
        "shared_memory": shared,
    }


@contextlib.contextmanager
def _decoys() -> Iterator[tuple[str, str]]:
    """A socket without a path, and shared memory, of another process of the machine."""
    name = f"mizzen-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(f"\0{name}")
        listening.listen()
        shared = Path("/dev/shm") / name
        shared.write_text(SECRET)
        try:
            yield name, name
        finally:
            shared.unlink(missing_ok=True)


def _becomes(user: str) -> Callable[[], None]:
    """For a child: becomes this user, who can reach our interpreter even if it is in a closed folder."""
    found = pwd.getpwnam(user)
    libc = ctypes.CDLL(None, use_errno=True)
    base = os.path.realpath(sys.base_prefix)
    closed = next((each for each in reversed(Path(base).parents) if not each.stat().st_mode & 0o001), None)

    def mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
        words = (each.encode() or None for each in (source, target, kind))
        if libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None):
            raise OSError(ctypes.get_errno(), f"mount {target}")

    def become() -> None:
        if closed is not None:
            handle = os.open(base, os.O_PATH)
            libc.unshare(_NEWNS)
            mount("none", "/", "", _REC | _PRIVATE, "")
            source = os.open(base, os.O_PATH)
            mount("tmpfs", str(closed), "tmpfs", 0, "mode=755")
            os.makedirs(base)
            mount(f"/proc/self/fd/{source}", base, "", _BIND | _REC, "")
            os.close(source)
            os.close(handle)
        os.setgroups([])
        os.setresgid(found.pw_gid, found.pw_gid, found.pw_gid)
        os.setresuid(found.pw_uid, found.pw_uid, found.pw_uid)

    return become
