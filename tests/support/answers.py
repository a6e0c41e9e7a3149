"""A small real HTTP server that gives the answers a test wrote down, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(slots=True)
class Answers:
    """`give` maps (method, path without query) to (code, body), or to a function of the request that gives one."""

    url: str
    give: dict[tuple[str, str], Any] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def answer(self, asked: Asked) -> tuple[int, Any]:
        self.asked.append(asked)
        found = self.give.get((asked.method, asked.path.partition("?")[0]), (404, {"error": f"no {asked.path}"}))
        code, body = found(asked) if callable(found) else found
        return code, body


@contextmanager
def answering() -> Iterator[Answers]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            code, given = answers.answer(Asked(self.command, self.path, headers, body))
            if code == 0:  # cut the connection without a word
                self.close_connection = True
                return
            content = given if isinstance(given, bytes) else json.dumps(given).encode()
            self.send_response(code)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _handle  # noqa: N815  the standard library's names

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    answers = Answers(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield answers
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
