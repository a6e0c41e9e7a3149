"""A PID namespace: what a machine without cgroups holds descendants together with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mizzen.confinement import pid_namespace
from tests.support import escapes
from tests.support.planes import wait_until

ACCESS = pid_namespace.detect()
pytestmark = pytest.mark.skipif(ACCESS == "none", reason="this machine offers no PID namespaces")


@pytest.fixture
def word() -> Iterator[str]:
    mark = escapes.new_word()
    yield mark
    escapes.end(mark)


def start(code: str, run: str = "abc") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-S", "-c", code],
        text=True, stdout=subprocess.PIPE, start_new_session=True,
        preexec_fn=lambda: pid_namespace.enter(own=ACCESS == "own", run=run),  # noqa: PLW1509
    )  # fmt: skip


@pytest.mark.parametrize("code", [0, 7])
def test_it_ends_with_the_code_of_its_program_and_with_all_descendants(word: str, code: int) -> None:
    with start(f"{escapes.ESCAPE}\nescape('{word}')\nimport sys\nsys.exit({code})") as process:
        assert process.wait() == code
    wait_until(lambda: not escapes.sleeping(word), "what escaped is gone")


def test_a_signal_that_ends_the_program_is_told_as_a_code() -> None:
    with start("import os, signal; os.kill(os.getpid(), signal.SIGKILL)") as process:
        assert process.wait() == 137


def test_the_program_gets_signals_and_sees_its_own_processes_only() -> None:
    code = """
import os, signal, sys, time
def on_term(*_):
    sys.exit(5)
signal.signal(signal.SIGTERM, on_term)
print(os.getpid(), len([name for name in os.listdir("/proc") if name.isdigit()]), flush=True)
time.sleep(600)
"""
    with start(code) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split() == ["2", "2"]
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 5


def test_a_kill_of_what_others_see_ends_everything(word: str) -> None:
    with start(f"{escapes.ESCAPE}\nescape('{word}')\nimport time\ntime.sleep(600)", run="0123456789abcdef") as process:
        wait_until(lambda: escapes.sleeping(word), "it has escaped")
        with open(f"/proc/{process.pid}/comm") as file:
            assert file.read().strip() == pid_namespace.mark_of("0123456789abcdef")
        (escaped,) = escapes.sleeping(word)
        assert os.readlink(f"/proc/{escaped}/ns/pid") != os.readlink("/proc/self/ns/pid")
        process.kill()
        process.wait()
    wait_until(lambda: not escapes.sleeping(word), "what escaped is gone")


def test_a_program_that_does_not_exist_is_an_error_of_the_start() -> None:
    with pytest.raises(FileNotFoundError):
        subprocess.Popen(["/no/such"], preexec_fn=lambda: pid_namespace.enter(own=ACCESS == "own", run=""))  # noqa: PLW1509
