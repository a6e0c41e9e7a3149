"""A real S3 on loopback: SeaweedFS, which can be killed at any moment and started again with all it had."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from mizzen.blobs.object_store_credentials import Credentials

BUCKET = "models"
_KEY, _SECRET = "mizzen", "not-so-secret"
_PORTS = ("master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3", "s3.grpc")
_SECONDS = 90.0
_ATTEMPTS = 5


class Seaweed:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
        self._process: subprocess.Popen[bytes] | None = None
        identity = {
            "name": "mizzen",
            "credentials": [{"accessKey": _KEY, "secretKey": _SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (folder / "data").mkdir()
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._ports['s3']}"

    @property
    def credentials(self) -> Credentials:
        return Credentials(self.endpoint, "us-east-1", _KEY, _SECRET)

    def start(self) -> None:
        """Until it answers, on the same ports and with the same files as before. Its buckets are made by who writes."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log, cwd=self._folder)
        end = time.monotonic() + _SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                said = (self._folder / "log").read_text(errors="replace")[-3000:]
                raise AssertionError(f"SeaweedFS does not start:\n{said}")
            time.sleep(0.05)

    def start_anywhere(self) -> None:
        """The first start. Another process may have taken one of the ports that were free: then with others."""
        for attempt in range(_ATTEMPTS):
            try:
                self.start()
                break
            except AssertionError as error:
                if "address already in use" not in str(error) or attempt == _ATTEMPTS - 1:
                    raise
            self.kill()
            self._ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))

    def kill(self) -> None:
        """As a power cut ends a process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _command(self) -> list[str]:
        ports = [f"-{name.replace('.grpc', '')}.port{'.grpc' * name.endswith('.grpc')}={port}"
                 for name, port in self._ports.items()]  # fmt: skip
        return [
            str(Path(sys.executable).with_name("weed")), "server", f"-dir={self._folder / 'data'}",
            "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *ports, "-master.telemetry=false", "-master.volumeSizeLimitMB=64",
            "-master.electionTimeout=1s", "-master.heartbeatInterval=100ms",
            "-volume.max=100", "-filer", f"-filer.localSocket={self._folder / 'f'}", "-s3",
            f"-s3.config={self._folder / 's3.json'}", f"-s3.localSocket={self._folder / 's'}", "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ]  # fmt: skip

    def _answers(self) -> bool:
        """Also its volumes: S3 answers before they do."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ports['master']}/dir/assign", timeout=5) as answer:
                if b'"fid"' not in answer.read():
                    return False
            urllib.request.urlopen(self.endpoint, timeout=5).close()
        except urllib.error.HTTPError as error:
            return error.code == 403  # who asks without a key
        except (OSError, ValueError):
            return False
        return True


@contextlib.contextmanager
def seaweed() -> Iterator[Seaweed]:
    folder = Path(tempfile.mkdtemp(prefix="weed-"))  # short: sockets are in it
    server = Seaweed(folder)
    try:
        server.start_anywhere()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]
