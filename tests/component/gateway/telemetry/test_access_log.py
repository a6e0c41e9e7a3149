"""The access log: which requests are in it, and what it says of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mizzen.gateway.request.head import RequestHead
from mizzen.gateway.telemetry.access_log import FLUSH_BYTES, MAX_ERRORS, AccessLog, AccessLogMode
from tests.support.gateway.guarded import permit, table
from tests.support.gateway.harness import Gateway, Runtime, body_of, infer_request, publish, table_of, until

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
HOT = "/v2/models/m/infer"


class Time:
    """A clock, and what is to be done later."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.25
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, work: Callable[[], None]) -> None:
        self.later.append((self.now + seconds, work))

    def pass_(self, seconds: float) -> None:
        self.now += seconds
        due = [work for at, work in self.later if at <= self.now]
        self.later = [(at, work) for at, work in self.later if at > self.now]
        for work in due:
            work()


@pytest.fixture
def time() -> Time:
    return Time()


def begun(file: Path, time: Time, logged: AccessLogMode = "all", **more: Any) -> AccessLog:
    return AccessLog(file, "gateway-0", logged, wall=lambda: time.now, call_later=time.call_later, **more)


def note(log: AccessLog, code: int = 200, path: bytes = HOT.encode(), id_: bytes = b"x") -> None:
    log.note(RequestHead(path=path, actor="ann"), id_, code, seconds=0.001, bytes_in=1, bytes_out=2)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def logging_gateway(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> Gateway:
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway(logged="all")
    gateway.wait_ready()
    return gateway


def of_id(gateway: Gateway, id_: str) -> dict[str, Any]:
    """The line of this request."""
    found: dict[str, Any] = until(
        lambda: next((line for line in lines(gateway.access_log) if line.get("request_id") == id_), None), id_
    )
    return found


@pytest.mark.parametrize("path", [HOT, f"{HOT}?by=asgi", "/ns/default/v2/models/m/versions/1/infer"])
def test_a_line_says_what_was_asked_and_answered(logging_gateway: Gateway, path: str) -> None:
    body = body_of([1.0, 2.0])
    marked = {"X-Request-Id": "mine", "traceparent": PARENT}
    answer = logging_gateway.ask("POST", path, body, **marked)
    assert answer.sums == [3.0]
    line = of_id(logging_gateway, "mine")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert 0 < line.pop("seconds") < 30
    assert line == {
        "request_id": "mine", "trace_id": TRACE, "actor": "anonymous", "method": "POST",
        "path": path.partition("?")[0], "namespace": "default", "model": "m", "version": "1", "code": 200,
        "bytes_in": len(body), "bytes_out": len(answer.body), "gateway": "gateway-0",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "model"),
    [
        ("POST", HOT, b"{", 400, "m"),
        ("POST", "/v2/models/nobody/infer", b"{}", 404, "nobody"),
        ("GET", "/v2/models/nobody", b"", 404, "nobody"),
        ("GET", "/nowhere", b"", 404, None),
        ("PUT", HOT, b"", 405, "m"),
        ("POST", HOT, b" " * (2 << 20), 413, "m"),
        ("GET", "/healthz", b"", 200, None),
    ],
)
def test_what_reached_no_model_is_there_too(
    logging_gateway: Gateway, method: str, path: str, body: bytes, code: int, model: str | None
) -> None:
    assert logging_gateway.ask(method, path, body, **{"X-Request-Id": "mine"}).status == code
    line = of_id(logging_gateway, "mine")
    assert (line["code"], line["method"], line["path"], line.get("model")) == (code, method, path, model)


def test_who_may_not_is_there_too(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish(folder / "table.json", table(runtime.address))
    permit(folder)
    gateway = start_gateway(anonymous=False, logged="all")
    until(lambda: gateway.ask("POST", "/v2/models/iris/infer", b"{}").status == 401)
    for path in ("/v2/models/iris/infer", "/v2/models/iris"):
        assert gateway.ask("POST", path, b"{}", **{"X-Request-Id": path}).status == 401
        assert of_id(gateway, path)["code"] == 401
    foreign = {"Origin": "http://evil.example", "X-Request-Id": "foreign"}
    assert gateway.ask("POST", "/v2/models/iris/infer", b"{}", **foreign).status == 403
    assert of_id(gateway, "foreign")["code"] == 403


def test_what_is_no_request_is_told_as_such(logging_gateway: Gateway) -> None:
    with logging_gateway.client() as client:
        client.send(b"nonsense\r\n\r\n")
        answer = client.answer()
    line = of_id(logging_gateway, answer.headers["mizzen-request-id"])
    assert (line["code"], line["method"], line["path"]) == (400, "", "")


def test_a_client_that_left_is_499(logging_gateway: Gateway, runtime: Runtime) -> None:
    runtime.held = True
    with logging_gateway.client() as client:
        client.send(infer_request([1.0]))
        until(lambda: runtime.items == 1)
    found = until(lambda: [line for line in lines(logging_gateway.access_log) if line["code"] == 499])
    assert (found[0]["model"], found[0]["bytes_out"]) == ("m", 0)
    runtime.release()


def test_by_default_only_failures_of_ours_are_logged(gateway: Gateway) -> None:
    gateway.infer([1.0])
    assert gateway.ask("POST", HOT, b"{").status == 400
    for path in (HOT, f"{HOT}?by=asgi"):
        assert gateway.ask("POST", path, body_of([1.0], name="fail"), **{"X-Request-Id": path}).status == 500
        assert of_id(gateway, path)["code"] == 500
    assert min(line["code"] for line in lines(gateway.access_log)) == 500


def test_off_leaves_no_file(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway(logged="off")
    gateway.wait_ready()
    gateway.ask("POST", HOT, body_of([1.0], name="fail"))
    gateway.stop()
    gateway.done.result(60)
    assert not gateway.access_log.exists()


def test_lines_are_gathered_and_all_are_written_at_the_end(tmp_path: Path, time: Time) -> None:
    log = begun(tmp_path / "a.log", time)
    note(log)
    assert lines(tmp_path / "a.log") == []
    time.pass_(0.1)
    assert [line["time"] for line in lines(tmp_path / "a.log")] == ["2023-11-14T22:13:20.250Z"]
    for _ in range(FLUSH_BYTES // 100):
        note(log)
    assert len(lines(tmp_path / "a.log")) > 1, "many are not kept for long"
    log.close()
    assert len(lines(tmp_path / "a.log")) == 1 + FLUSH_BYTES // 100
    assert (tmp_path / "a.log").stat().st_mode & 0o777 == 0o600


def test_too_many_errors_of_one_second_are_only_counted(tmp_path: Path, time: Time) -> None:
    log = begun(tmp_path / "a.log", time, "errors")
    for _ in range(MAX_ERRORS + 7):
        note(log, 500)
    time.pass_(2.0)
    time.pass_(0.2)
    *told, last = lines(tmp_path / "a.log")
    assert len(told) == MAX_ERRORS
    assert last == {"time": "2023-11-14T22:13:20.999Z", "left_out": 7, "gateway": "gateway-0"}
    note(log, 500)
    log.close()
    assert lines(tmp_path / "a.log")[-1]["code"] == 500, "another second"


def test_a_file_that_is_large_is_put_aside(tmp_path: Path, time: Time) -> None:
    log = begun(tmp_path / "a.log", time, file_bytes=1000)
    for number in range(30):
        note(log, id_=str(number).encode())
        log.flush()
    log.close()
    sizes = [(tmp_path / name).stat().st_size for name in ("a.log", "a.log.1")]
    assert all(0 < size <= 1000 for size in sizes)
    assert lines(tmp_path / "a.log")[-1]["request_id"] == "29"


def test_what_is_sent_as_a_path_ends_no_line_and_repeats_no_token(tmp_path: Path, time: Time) -> None:
    log = begun(tmp_path / "a.log", time)
    note(log, path=b'/v2/models/a\nb"/infer')
    note(log, path=b"/v2/models/mzn_" + b"x" * 40 + b"/infer")
    note(log, path=b"/" + b"x" * 100_000)
    log.close()
    first, second, third = lines(tmp_path / "a.log")
    assert first["model"] == 'a\\nb"'
    assert "x" * 40 not in json.dumps(second)
    assert len(third["path"]) < 1000


def test_a_disk_that_takes_nothing_holds_up_nobody(
    tmp_path: Path, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "no-folder").write_text("")
    log = begun(tmp_path / "no-folder" / "a.log", time)
    for _ in range(3):
        note(log)
        log.flush()
    log.close()
    assert [record.getMessage()[:14] for record in caplog.records] == ["the access log"], "said once"
