"""The pieces that talk to others: wrk's result, starting and ending servers, options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import contestants, load, run, streams

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# Answers every POST with the constant that the real model gives; one argument, the port.
SERVER = """
import sys, http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"outputs": [{"data": [%s]}]}' % sys.argv[2].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def server(folder: Path, answer: str) -> contestants.Program:
    return contestants.Program("server", folder, lambda port: [sys.executable, "-c", SERVER, str(port), answer])


def test_the_result_of_wrk_is_read() -> None:
    line = '{"requests": 10, "duration_us": 2000000, "p50_us": 500, "p99_us": 1500, "refused": 1, "failed": 2}'
    assert load.parse(f"Running 2s test\nRESULT {line}\n") == load.Load(10, 2.0, 0.5, 1.5, 3)


def test_the_result_of_h2load_is_read() -> None:
    output = (
        "finished in 2.00s, 10.00 req/s, 1.00KB/s\n"
        "requests: 20 total, 25 started, 20 done, 20 succeeded, 0 failed, 0 errored, 0 timeout\n"
        "traffic: 3.21KB (3365) total, 650B (650) headers (space savings 95.75%), 1.23KB (1290) data\n"
    )
    assert streams.counted(output) == (20, 1290)
    with pytest.raises(load.LoadFailed, match="no result: nobody is there"):
        streams.counted("nobody is there")


def test_wrk_without_a_result_is_a_failure_with_its_words() -> None:
    with pytest.raises(load.LoadFailed, match="unable to connect"):
        load.parse("", "unable to connect")


def test_a_server_is_started_checked_and_ended(tmp_path: Path) -> None:
    program = server(tmp_path, "0")
    try:
        program.start()
        assert contestants.ask(program.url) == (200, {"outputs": [{"data": [0]}]})
        (pid,) = program.processes()
    finally:
        program.stop()
    assert program.processes() == {}
    assert not Path(f"/proc/{pid}").exists()


def test_a_server_with_the_wrong_answer_does_not_count_as_started(tmp_path: Path) -> None:
    program = server(tmp_path, "1")
    try:
        with pytest.raises(contestants.StartFailed, match=r"\[0\] is right"):
            program.start()
    finally:
        program.stop()


def test_a_server_that_ends_at_once_is_reported_with_its_last_words(tmp_path: Path) -> None:
    program = contestants.Program("server", tmp_path, lambda _: [sys.executable, "-c", "raise SystemExit('no luck')"])
    try:
        with pytest.raises(contestants.StartFailed, match="no luck"):
            program.start()
    finally:
        program.stop()


def test_a_process_that_ignores_term_is_killed() -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); signal.pause()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        contestants.end(frozenset({process.pid}))
        assert process.wait(timeout=60) == -9
    finally:
        process.kill()
        process.communicate()


def test_options(capsys: pytest.CaptureFixture[str]) -> None:
    options = run.parse(["--connections", "1,8", "--only", "nginx"])
    assert (options.connections, options.only, options.rounds) == ([1, 8], ["nginx"], 3)
    with pytest.raises(SystemExit):
        run.parse(["--only", "apache"])
    assert "no contestant apache" in capsys.readouterr().err


def test_each_round_starts_with_another_contestant(tmp_path: Path) -> None:
    first, second = server(tmp_path, "0"), server(tmp_path, "1")
    assert run.rotated([first, second], 0) == [first, second]
    assert run.rotated([first, second], 3) == [second, first]
