"""Programs that answer HTTP, and Workloads of them."""

from __future__ import annotations

import urllib.request
from typing import Any

from mizzen.kinds.schema.resource import Meta, Resource

ANSWERS = """
import os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        ready = self.path in os.environ["READY"].split() and not os.path.exists(os.environ.get("UNREADY", "-"))
        body = str(os.getpid()).encode()
        self.send_response(200 if ready else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = HTTPServer(("127.0.0.1", int(PORT)), Handler)
print("answering", os.environ.get("WORD", ""), flush=True)
server.serve_forever()
"""

BY_VARIABLE = "import os; PORT = os.environ['PORT']\n" + ANSWERS
BY_ARGUMENT = "import sys; PORT = sys.argv[1]\n" + ANSWERS

READY = {"v2": "/v2/health/ready", "v1": "/v1/models/scorer", "seldon": "/health/status"}
"""By what each protocol says that it is ready."""


def answering(code: str = BY_VARIABLE, *arguments: str, ready: str = READY["v2"], **spec: Any) -> Resource:
    meta = Meta("scorer-1", uid="7d8e9f0a-1b2c-4d3e-8f4a-5b6c7d8e9f0a")
    given = {"purpose": "answer", "model": "scorer", "command": ["python", "-c", code, *arguments]}
    return Resource("Workload", meta, given | spec | {"env": {"READY": ready, **spec.get("env", {})}})


def get(address: str, path: str = READY["v2"]) -> bytes:
    with urllib.request.urlopen(f"{address}{path}", timeout=60) as answer:
        body: bytes = answer.read()
        return body
