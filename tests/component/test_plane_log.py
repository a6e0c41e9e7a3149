"""What a plane's process writes to its log, and what it must not."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading

import pytest

FETCH = """
import logging
import sys
import httpx2
from mizzen.assemble import __main__

__main__._set_up_log(sys.argv[1])
logging.getLogger("mizzen").warning("begins")
with httpx2.Client(trust_env=False) as client:
    print(client.get(sys.argv[2]).text)
"""


@pytest.mark.parametrize("level", ["info", "debug"])
def test_urls_that_are_fetched_are_not_logged(level: str) -> None:
    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"content")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{site.server_address[1]}/model.tgz?X-Signature=s3cret"
        done = subprocess.run(
            [sys.executable, "-c", FETCH, level, url], capture_output=True, text=True, timeout=60, check=True
        )
        site.shutdown()
    assert done.stdout == "content\n"
    assert "begins" in done.stderr
    assert "s3cret" not in done.stderr
