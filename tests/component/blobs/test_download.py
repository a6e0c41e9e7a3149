"""Downloads: through broken connections, never what they should not be, never from where they should not be."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.ingest import download, private_addresses
from mizzen.errors import Invalid, TooLarge

DATA = os.urandom(300_000)
SHA = hashlib.sha256(DATA).hexdigest()


@dataclass
class Site:
    """A server that gives `data` in pieces of `cut` bytes, and then breaks the connection."""

    url: str = ""
    data: bytes = DATA
    cut: int = 0
    etag: str = '"1"'
    ranges: bool = True
    failures: int = 0
    redirect: str = ""
    asked: list[tuple[str, str | None, str | None]] = field(default_factory=list)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append((handler.path, handler.headers["range"], handler.headers["authorization"]))
        if self.failures:
            self.failures -= 1
            handler.send_error(503)
            return
        if self.redirect and not handler.path.startswith("/final"):
            handler.send_response(302)
            handler.send_header("location", self.redirect)
            handler.send_header("content-length", "0")
            handler.end_headers()
            return
        if handler.path == "/none":
            handler.send_error(404)
            return
        start = 0
        wanted = handler.headers["range"]
        if self.ranges and wanted and handler.headers["if-range"] == self.etag:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("content-range", f"bytes {start}-{len(self.data) - 1}/{len(self.data)}")
        handler.send_header("content-length", str(len(self.data) - start))
        if self.etag:
            handler.send_header("etag", self.etag)
        handler.end_headers()
        handler.wfile.write(self.data[start : start + self.cut] if self.cut else self.data[start:])
        handler.close_connection = True


@pytest.fixture
def site() -> Iterator[Site]:
    found = Site()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found.answer(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def fetch(tmp_path: Path, url: str, sha: str | None = SHA, *, private: bool = True, most: int | None = None) -> bytes:
    with FileBlobs(tmp_path / "blobs").spool(most) as spool:
        asyncio.run(download.fetch(url, spool, sha, download.DownloadPolicy(private, pause=0.001)))
        return spool.content().read()


def test_a_file(tmp_path: Path, site: Site) -> None:
    assert fetch(tmp_path, f"{site.url}/x") == DATA
    assert fetch(tmp_path, f"{site.url}/x", None) == DATA


def test_it_goes_on_where_it_broke_off(tmp_path: Path, site: Site) -> None:
    site.cut = 100_000
    assert fetch(tmp_path, f"{site.url}/x") == DATA
    assert [wanted for _, wanted, _ in site.asked] == [None, "bytes=100000-", "bytes=200000-"]


def test_how_far_it_is_can_be_followed(tmp_path: Path, site: Site) -> None:
    site.data, site.cut, told = DATA * 10, 2_000_000, list[tuple[int, int | None]]()
    with FileBlobs(tmp_path / "blobs").spool() as spool:
        asyncio.run(
            download.fetch(
                f"{site.url}/x",
                spool,
                None,
                download.DownloadPolicy(True, pause=0.001),
                lambda *said: told.append(said),
            )
        )
    assert {total for _, total in told} == {3_000_000}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (3_000_000, 3_000_000)
    assert len(told) >= 2


@pytest.mark.parametrize("how", ["no ranges", "no etag", "weak etag"])
def test_what_cannot_be_gone_on_with_begins_anew(tmp_path: Path, site: Site, how: str) -> None:
    site.cut = 200_000
    site.ranges = how != "no ranges"
    site.etag = {"no ranges": '"1"', "no etag": "", "weak etag": 'W/"1"'}[how]
    with pytest.raises(Invalid, match="after 6 attempts"):
        fetch(tmp_path, f"{site.url}/x")
    site.cut = 0
    site.failures = 3
    assert fetch(tmp_path, f"{site.url}/x") == DATA


def test_a_file_that_changed_meanwhile_is_not_glued_together(tmp_path: Path, site: Site) -> None:
    site.cut = 200_000
    answer = site.answer

    def change(handler: BaseHTTPRequestHandler) -> None:
        answer(handler)
        site.data, site.etag, site.cut = DATA[::-1], '"2"', 0

    site.answer = change  # type: ignore[method-assign]
    assert fetch(tmp_path, f"{site.url}/x", hashlib.sha256(DATA[::-1]).hexdigest()) == DATA[::-1]


def test_another_content_is_refused(tmp_path: Path, site: Site) -> None:
    with pytest.raises(Invalid, match=f"has the sha256 {SHA}, not {'0' * 64}"):
        fetch(tmp_path, f"{site.url}/x", "0" * 64)
    assert not [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]


def test_too_large_and_not_there(tmp_path: Path, site: Site) -> None:
    with pytest.raises(TooLarge):
        fetch(tmp_path, f"{site.url}/x", most=1000)
    with pytest.raises(Invalid, match="responds with 404"):
        fetch(tmp_path, f"{site.url}/none")
    site.failures = 99
    with pytest.raises(Invalid, match="responds with 503"):
        fetch(tmp_path, f"{site.url}/x")
    with pytest.raises(Invalid, match="attempts"):
        fetch(tmp_path, "http://127.0.0.1:1/x")


def test_redirects(tmp_path: Path, site: Site) -> None:
    site.redirect = "/final"
    assert fetch(tmp_path, f"{site.url}/x") == DATA
    site.redirect = "/again"
    with pytest.raises(Invalid, match="more than 5 redirects"):
        fetch(tmp_path, f"{site.url}/x")
    assert len(site.asked) == 2 + 6
    for bad in ("file:///etc/passwd", "ftp://host/x", "gopher://x", "//"):
        site.redirect = bad
        with pytest.raises(Invalid, match="downloadURL"):
            fetch(tmp_path, f"{site.url}/x")


def test_credentials_go_to_their_own_host_alone(tmp_path: Path, site: Site) -> None:
    other = site.url.replace("127.0.0.1", "localhost")
    site.redirect = f"{other}/final"
    url = site.url.replace("//", "//ann:s3cret@")
    assert fetch(tmp_path, f"{url}/x") == DATA
    assert [asked[2] is not None for asked in site.asked] == [True, False]
    assert "s3cret" not in download.redact_url(f"{url}/x")
    with pytest.raises(Invalid) as refused:
        fetch(tmp_path, f"{url}/none", "0" * 64)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("https://h/a%20b.tgz", "https://h/a%20b.tgz"),
        ("https://ann:pw@h:8/x?X-Sig=s3cret&v=2#s3cret", "https://h:8/x?X-Sig=***&v=***"),
        ("https://h/x?s3cret", "https://h/x?***"),
        ("https://h/x?a=s3=cret&&b", "https://h/x?a=***&***&***"),
        ("https://h/x?", "https://h/x?"),
    ],
)
def test_of_a_query_only_names_are_shown(url: str, wanted: str) -> None:
    assert download.redact_url(url) == wanted


def test_a_signature_is_sent_and_told_to_nobody(tmp_path: Path, site: Site) -> None:
    with pytest.raises(Invalid) as refused:
        fetch(tmp_path, f"{site.url}/x?sig=s3cret", "0" * 64)
    assert "x?sig=***" in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert site.asked[0][0].endswith("x?sig=s3cret")


def test_people_who_are_no_admins_do_not_reach_the_planes_network(tmp_path: Path, site: Site) -> None:
    for url in (
        site.url,
        site.url.replace("127.0.0.1", "localhost"),
        "http://[::1]:1",
        "http://0.0.0.0",
        "http://10.0.0.1",
    ):
        with pytest.raises(Invalid, match="own network"):
            fetch(tmp_path, f"{url}/x", private=False)
    assert site.asked == []


@pytest.mark.parametrize(
    "url", ["", "x", "http://", "file:///etc/passwd", "http://exa mple/", "http://a:99999/", "ftp://a/b"]
)
def test_what_is_no_url(tmp_path: Path, url: str) -> None:
    with pytest.raises(Invalid, match="downloadURL"):
        fetch(tmp_path, url)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True), ("2606:4700::1111", True), ("127.0.0.1", False), ("10.1.2.3", False), ("172.16.0.1", False),
        ("192.168.0.1", False), ("169.254.169.254", False), ("0.0.0.0", False), ("100.64.0.1", False), ("::1", False),
        ("fe80::1", False), ("fd00::1", False), ("::ffff:127.0.0.1", False), ("::ffff:8.8.8.8", True),
        ("64:ff9b::7f00:1", False), ("2002:7f00:1::", False), ("224.0.0.1", False), ("ff02::1", False), ("x", False),
        ("::127.0.0.1", False), ("::ffff:0:127.0.0.1", False), ("64:ff9b:1::a9fe:a9fe", False), ("fec0::1", False),
        ("3fff::1", False), ("5f00::1", False), ("192.88.99.1", False), ("192.0.0.9", False), ("198.18.0.1", False),
        ("240.0.0.1", False), ("255.255.255.255", False), ("203.0.113.1", False), ("2001:db8::1", False),
        ("2001:2::1", False), ("2001:10::1", False), ("100::1", False), ("4000::1", False), ("::8.8.8.8", False),
        ("64:ff9b::808:808", True), ("2002:808:808::1", True), ("2001:4860:4860::8888", True), ("2001:200::1", True),
        ("2001:0:808:808:0:0:80ff:fffe", False), ("2001:0:a00:1:0:0:f7f7:f7f7", False),
        ("2001:0:808:808:0:0:f7f7:f7f7", True), ("192.31.196.1", True), ("100.128.0.1", True), ("172.32.0.1", True),
    ],
)  # fmt: skip
def test_which_addresses_belong_to_the_world(address: str, public: bool) -> None:
    assert private_addresses.is_public(address) is public
