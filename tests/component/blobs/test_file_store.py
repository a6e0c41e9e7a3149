"""Blobs in a folder: content by digest, never torn, never changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mizzen.blobs.file_store import FileBlobs
from mizzen.errors import NotFound
from tests.support.blobs.contents import digest_of, kept

KILLED = """
import os, signal, sys
from pathlib import Path
from mizzen.blobs.file_store import FileBlobs

os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # the content is written, and not yet in its place
FileBlobs(Path(sys.argv[1])).put_bytes(b"never finished")
"""


def test_a_killed_put_leaves_no_blob_and_is_swept_up(blobs: FileBlobs, tmp_path: Path) -> None:
    whole = blobs.put_bytes(b"whole")
    child = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "blobs"], check=False, timeout=60)
    assert child.returncode == -9
    with pytest.raises(NotFound):
        blobs.path(digest_of(b"never finished"))
    assert len(kept(blobs)) == 2
    blobs.sweep()
    assert kept(blobs) == [blobs.path(whole.digest)]
    assert blobs.put_bytes(b"never finished").digest == digest_of(b"never finished")


WRITES = """
import sys
from pathlib import Path
from mizzen.blobs.file_store import FileBlobs

class Slow:
    pieces = [b"half", b"other half", b""]
    def read(self, size):
        if len(self.pieces) == 2:
            print(flush=True)
            sys.stdin.readline()
        return self.pieces.pop(0)

print(FileBlobs(Path(sys.argv[1])).put(Slow()).digest)
"""


def test_what_another_process_writes_just_now_is_not_swept_up(blobs: FileBlobs, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITES, str(tmp_path / "blobs")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        blobs.sweep()
        said, _ = child.communicate("go on\n", timeout=60)
    assert blobs.path(said.strip()).read_bytes() == b"halfother half"


FULL = """
import resource, sys
from pathlib import Path
from mizzen.blobs.file_store import FileBlobs
from mizzen.errors import Unavailable

resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    FileBlobs(Path(sys.argv[1])).put_bytes(b"x" * 5000)
except Unavailable as error:
    sys.exit(0 if isinstance(error.__cause__, OSError) else 1)
sys.exit(2)
"""


def test_a_full_disk_is_unavailable_and_leaves_nothing(blobs: FileBlobs, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FULL, tmp_path / "blobs"], check=True, timeout=60)
    assert kept(blobs) == []
