"""Datasets: whole and verified, or the command never starts."""

from __future__ import annotations

import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.planes import wait_until
from tests.support.runner.attempts import LIMIT, Attempts

SHOWS = """
    import os, pathlib
    folder = pathlib.Path(os.environ["MIZZEN_DATASET_DIR"])
    print({str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()})
"""


class Web:
    """What a server answers with, by path, and how often it was asked."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.failures = 0
        """So many answers are 503 first."""
        self.url = ""


@contextmanager
def serving() -> Iterator[Web]:
    web = Web()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.asked.append(self.path)
            found = web.content.get(self.path)
            if web.failures:
                web.failures -= 1
                self.send_error(503)
            elif found is None:
                self.send_error(404)
            else:
                self.send_response(200)
                self.send_header("content-length", str(len(found)))
                self.end_headers()
                self.wfile.write(found)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as found:
        yield found


def test_a_folder_of_this_machine_is_used_as_it_is(attempts: Attempts, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.csv").write_text("1,2")
    ended = attempts.run(f"{SHOWS}\n    print(folder)", dataset={"path": str(tmp_path / "data")})
    assert ended.code == 0, ended.message
    assert attempts.printed() == ["[worker-0] {'rows.csv': '1,2'}", f"[worker-0] {tmp_path / 'data'}"]


def test_a_file_of_this_machine_is_linked_into_a_folder(attempts: Attempts, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("1,2")
    attempts.run(SHOWS, dataset={"path": str(tmp_path / "rows.csv")})
    assert attempts.printed() == ["[worker-0] {'rows.csv': '1,2'}"]


def test_a_path_that_is_not_there_ends_the_attempt(attempts: Attempts) -> None:
    ended = attempts.run(SHOWS, dataset={"path": "/no/such/folder"})
    assert (ended.code, ended.reason, ended.retry, ended.started) == (1, "DatasetUnavailable", False, None)
    assert "/no/such/folder" in ended.message
    assert attempts.printed() == []


def test_a_file_comes_by_http_once_for_all_attempts(attempts: Attempts, web: Web) -> None:
    web.content["/d/rows.csv"] = b"1,2"
    web.failures = 1
    dataset = {"http": {"url": f"{web.url}/d/rows.csv?key=1", "sha256sum": hashlib.sha256(b"1,2").hexdigest()}}
    web.content["/d/rows.csv?key=1"] = b"1,2"
    attempts.run(SHOWS, dataset=dataset, trusted=True)
    attempts.run(SHOWS, attempt=1)
    assert attempts.printed() == ["[worker-0] {'rows.csv': '1,2'}"] * 2
    assert len(web.asked) == 2, "once in vain, and once for both attempts"


@pytest.mark.parametrize("name", ["data.tar.gz", "data.zip"])
def test_an_archive_is_unpacked(attempts: Attempts, web: Web, name: str) -> None:
    web.content[f"/{name}"] = _packed(name, {"train/a.txt": b"a", "train/b.txt": b"a", "c.txt": b"c"})
    ended = attempts.run(SHOWS, dataset={"http": {"url": f"{web.url}/{name}"}}, trusted=True)
    assert ended.code == 0, ended.message
    assert attempts.printed() == ["[worker-0] {'c.txt': 'c', 'train/a.txt': 'a', 'train/b.txt': 'a'}"]


def test_an_archive_that_leads_out_of_its_folder_is_refused(attempts: Attempts, web: Web) -> None:
    web.content["/data.tar"] = _packed("data.tar", {"../../outside.txt": b"x"})
    ended = attempts.run(SHOWS, dataset={"http": {"url": f"{web.url}/data.tar"}}, trusted=True)
    assert ended.reason == "DatasetUnavailable"
    assert "leads out" in ended.message
    assert not [*attempts.data_dir.rglob("outside.txt")]


def test_a_wrong_digest_is_told_at_once_and_nothing_of_it_is_left(attempts: Attempts, web: Web) -> None:
    web.content["/rows.csv"] = b"something else"
    dataset = {"http": {"url": f"{web.url}/rows.csv", "sha256sum": "0" * 64}}
    ended = attempts.run(SHOWS, dataset=dataset, trusted=True)
    assert (ended.reason, ended.retry) == ("DatasetUnavailable", False)
    assert "0" * 64 in ended.message
    assert web.asked == ["/rows.csv"]
    assert not attempts.job.dataset.exists()
    assert attempts.printed() == []


def test_one_that_cannot_be_reached_is_told_without_its_credentials(attempts: Attempts, web: Web) -> None:
    host = web.url.removeprefix("http://")
    ended = attempts.run(SHOWS, dataset={"http": {"url": f"http://me:s3cret@{host}/gone.csv?sig=abc"}}, trusted=True)
    assert ended.reason == "DatasetUnavailable"
    assert f"http://{host}/gone.csv?sig=***" in ended.message
    assert "404" in ended.message
    assert "s3cret" not in ended.message


def test_who_is_not_trusted_does_not_reach_this_machine(attempts: Attempts, web: Web) -> None:
    web.content["/rows.csv"] = b"1,2"
    ended = attempts.run(SHOWS, dataset={"http": {"url": f"{web.url}/rows.csv"}})
    assert ended.reason == "DatasetUnavailable"
    assert "own network" in ended.message
    assert web.asked == []


def test_a_second_replica_waits_for_the_first_to_fetch(attempts: Attempts, web: Web) -> None:
    web.content["/rows.csv"] = b"1,2"
    common: dict[str, Any] = {
        "cluster": {"worker": ("h:1", "h:2")},
        "dataset": {"http": {"url": f"{web.url}/rows.csv"}},
    }
    runners = [attempts.start(SHOWS, replica=name, trusted=True, **common) for name in ("worker-0", "worker-1")]
    assert [runner.wait(LIMIT) for runner in runners] == [0, 0]
    assert sorted(attempts.printed()) == [f"[worker-{index}] {{'rows.csv': '1,2'}}" for index in (0, 1)]
    assert web.asked == ["/rows.csv"]


def test_told_to_stop_while_it_fetches_it_stops_and_goes_on_later(attempts: Attempts, web: Web) -> None:
    web.content["/rows.csv"] = b"1,2"
    web.failures = 1000
    runner = attempts.start(SHOWS, dataset={"http": {"url": f"{web.url}/rows.csv"}}, trusted=True)
    wait_until(lambda: web.asked, "it is fetching")
    runner.terminate()
    assert runner.wait(LIMIT) == 143
    assert attempts.place().path_of_stopped(0).exists()
    web.failures = 0
    assert attempts.run().code == 0
    assert attempts.printed() == ["[worker-0] {'rows.csv': '1,2'}"]


def _packed(name: str, files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    if name.endswith(".zip"):
        with zipfile.ZipFile(out, "w") as archive:
            for path, content in files.items():
                archive.writestr(path, content)
        return out.getvalue()
    with tarfile.open(fileobj=out, mode="w:gz" if name.endswith("gz") else "w") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()
