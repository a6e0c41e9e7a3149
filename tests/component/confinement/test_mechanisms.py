"""Real processes under each mechanism alone, and under all: what protects the plane is not one of them only."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mizzen.confinement import launcher, machine
from mizzen.confinement.machine import Machine
from mizzen.confinement.spec import Confinement

NOTHING = Machine(landlock=0, seccomp=False, namespaces="none", root=os.getuid() == 0)
HERE = machine.detect()

needs_landlock = pytest.mark.skipif(not HERE.landlock, reason="this kernel has no Landlock")
needs_namespaces = pytest.mark.skipif(HERE.namespaces == "none", reason="no mount namespaces here")
needs_root = pytest.mark.skipif(HERE.namespaces != "own", reason="only root can start processes of another user")

PROBE = """
import ctypes, json, os, socket, sys

data = {data!r}

def attempt(act):
    try:
        return str(act() or "done")[:80]
    except OSError as error:
        return error.strerror

def connect():
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(data + "/plane.sock")

def trace():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(0x4206, {pid}, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

print(json.dumps({{
    "own": attempt(lambda: open(data + "/own/scratch/x", "w").write("x")),
    "own code": attempt(lambda: open(data + "/own/code").read()),
    "write to own code": attempt(lambda: open(data + "/own/code", "a")),
    "token": attempt(lambda: open(data + "/token").read()),
    "through parents": attempt(lambda: open("../token").read()),
    "other": attempt(lambda: open(data + "/other/code").read()),
    "chmod": attempt(lambda: os.chmod(data + "/token", 0o644)),
    "connect": attempt(connect),
    "signal": attempt(lambda: os.kill({pid}, 0)),
    "environ": attempt(lambda: len(open("/proc/{pid}/environ").read()) > 0),
    "trace": attempt(trace),
    "limits": attempt(lambda: __import__("resource").prlimit({pid}, 7, __import__("resource").prlimit({pid}, 7))),
    "unshare": attempt(lambda: ctypes.CDLL(None).unshare(0x10000000) and (_ for _ in ()).throw(OSError(1, "refused"))),
    "etc": attempt(lambda: open("/etc/hosts").read()),
    "uid": os.getuid(),
    "home": os.environ.get("HOME"),
}}))
"""
REFUSED = {
    "Permission denied",
    "Operation not permitted",
    "No such file or directory",
    "Read-only file system",
    "refused",
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A data dir with a secret, a socket, own files and those of another model."""
    import socket

    data = tmp_path / "data"
    for folder in ("own/scratch", "other"):
        (data / folder).mkdir(parents=True)
    for file in ("token", "own/code", "other/code"):
        (data / file).write_text("secret")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(data / "plane.sock"))
        listening.listen()
        yield data


def confinement(data: Path, **more: Any) -> Confinement:
    return Confinement(
        read=(str(data / "own"),),
        write=(str(data / "own/scratch"),),
        protected=(str(data),),
        home=str(data / "own/scratch"),
        **more,
    )


def probe(data: Path, offered: Machine, code: str = PROBE, **more: Any) -> dict[str, Any]:
    found = confinement(data, **more)
    environ = {**launcher.clean_environment(os.environ), **launcher.home_environment(found)}
    done = subprocess.run(
        [sys.executable, "-c", code.format(data=str(data), pid=os.getpid())],
        preexec_fn=launcher.child_setup(found, offered),
        env=environ,
        cwd=data / "own",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def refused(found: dict[str, Any]) -> set[str]:
    return {name for name, what in found.items() if what in REFUSED}


FILES = {"token", "through parents", "other"}


def test_without_any_mechanism_the_probe_succeeds(place: Path) -> None:
    assert not refused(probe(place, NOTHING)) & FILES, "else this test shows nothing"


@needs_landlock
def test_landlock_alone(place: Path) -> None:
    found = probe(place, replace(NOTHING, landlock=HERE.landlock))
    assert refused(found) >= FILES | {"write to own code", "environ", "trace"}
    assert not refused(found) & {"own", "own code", "etc"}
    if HERE.landlock >= 6:
        assert "signal" in refused(found)


def test_seccomp_alone(place: Path) -> None:
    found = probe(place, replace(NOTHING, seccomp=True))
    assert refused(found) >= {"trace", "limits", "unshare"}
    assert not refused(found) & {"own", "own code", "etc"}


@needs_namespaces
def test_namespaces_alone(place: Path) -> None:
    found = probe(place, replace(NOTHING, namespaces=HERE.namespaces))
    assert refused(found) >= FILES | {"write to own code", "chmod", "connect"}
    assert not refused(found) & {"own", "own code", "etc"}


def test_all_of_them(place: Path) -> None:
    found = probe(place, HERE)
    expected = {"own": "1", "own code": "secret", "uid": os.getuid(), "home": str(place / "own/scratch")}
    assert found.items() >= expected.items()
    everything = found.keys() - expected.keys() - {"etc"}
    assert refused(found) == everything if HERE.landlock >= 6 and HERE.namespaces != "none" else FILES


@needs_root
def test_as_another_user(place: Path) -> None:
    """The data dir stays closed to that user; own folders are given to it."""
    place.chmod(0o700)
    found = probe(place, HERE, user="nobody")
    nobody = pwd.getpwnam("nobody").pw_uid
    assert (found["uid"], found["own"], found["own code"]) == (nobody, "1", "secret")
    assert refused(found) >= FILES | {"signal", "connect"}
    assert (place / "own/scratch/x").stat().st_uid == nobody
    assert (place / "own/code").stat().st_uid == (place / "token").stat().st_uid == 0


def test_a_confinement_that_fails_starts_nothing(place: Path) -> None:
    """Such as for a user that does not exist: the program must not run with more rights instead."""
    lacking = replace(HERE, root=False)
    with pytest.raises(subprocess.SubprocessError):
        subprocess.run(
            [sys.executable, "-c", "raise SystemExit(0)"],
            preexec_fn=launcher.child_setup(confinement(place, user="no-such-user"), lacking),
            check=False,
            stderr=subprocess.DEVNULL,
        )


LIBRARIES = """
import concurrent.futures, json, multiprocessing, os, shutil, subprocess, sys, tempfile, threading
import joblib, numpy

def square(number):
    return number * number

def main():
    context = multiprocessing.get_context("spawn" if sys.argv[1:] else "fork")
    with context.Pool(2) as pool:
        assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(square, [3])) == [9]
    assert joblib.Parallel(n_jobs=2)(joblib.delayed(square)(each) for each in (1, 2)) == [1, 4]
    from multiprocessing import shared_memory
    block = shared_memory.SharedMemory(create=True, size=1 << 16)
    block.buf[0] = 7
    block.close(); block.unlink()
    context.Semaphore(1).acquire()
    with tempfile.NamedTemporaryFile() as file:
        big = numpy.memmap(file.name, dtype="f4", mode="w+", shape=(1000,))
        big[:] = 1
        assert big.sum() == 1000
    os.makedirs(os.path.expanduser("~/.cache/models"))
    echo = ["sh", "-c", "echo hello > $TMPDIR/x && cat $TMPDIR/x"]
    assert subprocess.run(echo, capture_output=True).stdout == b"hello\\n"
    shell = ["sh", "-c", "echo > /dev/stdout; echo > /dev/null; nice -n 1 true"]
    subprocess.run(shell, check=True, stdout=subprocess.DEVNULL)
    thread = threading.Thread(target=square, args=(1,)); thread.start(); thread.join()
    import getpass, platform, socket, ssl, time, zoneinfo
    ssl.create_default_context()
    socket.create_server(("127.0.0.1", 0)).close()
    socket.getaddrinfo("localhost", 80)
    zoneinfo.ZoneInfo("Europe/Berlin") if os.path.exists("/usr/share/zoneinfo/Europe/Berlin") else None
    os.cpu_count(), os.sched_getaffinity(0), platform.libc_ver()
    shutil.copy(sys.executable, os.path.expanduser("~/python"))
    os.chmod(os.path.expanduser("~/python"), 0o700)

if __name__ == "__main__":
    main()
    print("{{}}")
"""


def test_what_libraries_do_still_works(place: Path) -> None:
    """Pools of processes, semaphores, shared memory, caches, temporary files, shells, TLS, names and ports."""
    (place / "own" / "program.py").write_text(LIBRARIES.replace("{{}}", "{}"))
    probe(place, HERE, "import runpy; runpy.run_path('program.py', run_name='__main__')")


def test_a_working_folder_of_the_user_can_be_read_but_not_the_plane_in_it(place: Path) -> None:
    outside = place.parent
    (outside / "dataset.csv").write_text("1,2")
    code = """
import json
token = "{data}/token"
try:
    found = open(token).read()
except OSError:
    found = ""
print(json.dumps({{"dataset": open({data!r}[:-5] + "/dataset.csv").read(), "token": found}}))
"""
    assert probe(place, HERE, code, outside=(str(outside),)) == {"dataset": "1,2", "token": ""}


def test_links_lead_where_they_should(place: Path) -> None:
    """A folder that is named through a link in a folder that is hidden."""
    real = place.parent / "real"
    real.mkdir()
    (real / "x").write_text("1")
    link = place.parent / "link"
    link.symlink_to(real)
    code = f"print('{{{{\"x\": \"' + open({str(link)!r} + '/x').read() + '\"}}}}')"
    assert probe(place, HERE, code, outside=(str(link),)) == {"x": "1"}
