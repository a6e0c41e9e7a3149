"""Documents: on disk alone, and with every store behind that keeps them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from mizzen.blobs import backed_documents
from mizzen.blobs.backed_store import BackedBlobs
from mizzen.blobs.documents import FileDocuments
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.open_store import open_store
from mizzen.blobs.store import KeepsDocuments
from mizzen.errors import Invalid, NotFound, Unavailable
from tests.contract.objects import Away, new_folder, new_s3


@dataclass
class World:
    blobs: Callable[[str], FileBlobs]
    """On a disk of this name, with the same store behind it."""
    behind: KeepsDocuments | None


@pytest.fixture(params=["alone", "file", "s3"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    if request.param == "alone":
        return World(lambda disk: FileBlobs(tmp_path / disk), None)
    return _backed(request, tmp_path)


@pytest.fixture(params=["file", "s3"])
def backed(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return _backed(request, tmp_path)


def _backed(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    made = new_folder(tmp_path / "store") if request.param == "file" else new_s3(request.getfixturevalue("s3"))
    return World(lambda disk: BackedBlobs(tmp_path / disk, made), made)


@pytest.fixture
def documents(world: World) -> FileDocuments:
    return world.blobs("disk").documents


def test_what_is_put_is_had_again_and_listed_in_order(documents: FileDocuments) -> None:
    assert documents.names() == documents.names("checkpoints/") == []
    for name in (
        "checkpoints/d/m/2/b.json",
        "checkpoints/d/m/2/a.json",
        "checkpoints/d/m/10/c.json",
        "logs/u/w-0/0.json",
    ):
        assert documents.put(name, name.encode())
    assert documents.names("checkpoints/d/m/2/") == ["checkpoints/d/m/2/a.json", "checkpoints/d/m/2/b.json"]
    assert documents.names("checkpoints/d/m/") == sorted(documents.names("checkpoints/"))
    assert documents.names("checkpoints/d/m/1") == ["checkpoints/d/m/10/c.json"]
    assert len(documents.names()) == 4
    assert documents.get("logs/u/w-0/0.json") == b"logs/u/w-0/0.json"
    assert documents.put("logs/u/w-0/0.json", b"longer than it was before, and whole")
    assert documents.get("logs/u/w-0/0.json") == b"longer than it was before, and whole"


def test_what_is_deleted_is_gone(documents: FileDocuments, world: World) -> None:
    documents.put("a/b/c", b"1")
    assert documents.delete("a/b/c")
    assert not documents.delete("a/b/c")
    assert documents.names() == []
    for missing in ("a/b/c", "a/b", "a"):
        with pytest.raises(NotFound):
            documents.get(missing)
    if world.behind is not None:
        assert list(world.behind.document_names()) == []
    assert documents.put("a/b/c", b"2", new=True), "its name is free again"
    assert documents.get("a/b/c") == b"2"


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "a//b", "../a", "a/./b", "a/..", "ä", "a b", "a\n", "x" * 900, "a\\b"]
)
def test_names_that_lead_elsewhere_are_refused(documents: FileDocuments, name: str) -> None:
    for call in (lambda: documents.put(name, b""), lambda: documents.get(name), lambda: documents.delete(name)):
        with pytest.raises(Invalid):
            call()
    assert documents.names() == []


def test_one_is_made_once_however_many_try(world: World) -> None:
    several = [world.blobs("disk").documents for _ in range(8)]
    for turn in range(5):
        name, start = f"race/{turn}", threading.Barrier(8)

        def put(number: int, name: str = name, start: threading.Barrier = start) -> bool:
            start.wait()
            return several[number].put(name, f"by {number}".encode(), new=True)

        with ThreadPoolExecutor(8) as threads:
            told = list(threads.map(put, range(8)))
        assert told.count(True) == 1, told
        assert several[0].get(name) == f"by {told.index(True)}".encode()
    assert not several[0].put("race/0", b"later", new=True)


def test_one_is_made_once_by_several_processes(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from mizzen.blobs.documents import FileDocuments\n"
        "made = FileDocuments(Path(sys.argv[1]))\n"
        "print(sum(made.put(f'a/{n}', sys.argv[2].encode(), new=True) for n in range(200)))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(n)], stdout=subprocess.PIPE) for n in range(3)
    ]
    assert sum(int(each.communicate()[0]) for each in running) == 200


def test_folders_go_and_come_while_documents_do(world: World) -> None:
    documents = world.blobs("disk").documents

    def come_and_go(number: int) -> None:
        for _ in range(20):
            assert documents.put(f"deep/er/{number}", b"x")
            assert documents.get(f"deep/er/{number}") == b"x"
            assert documents.delete(f"deep/er/{number}")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(come_and_go, range(4)))
    assert documents.names() == []


def test_a_document_is_no_folder(tmp_path: Path) -> None:
    documents = FileBlobs(tmp_path).documents
    documents.put("a/b", b"")
    for name in ("a", "a/b/c", "a/b/c/d"):
        for new in (False, True):
            with pytest.raises(Invalid, match="both"):
                documents.put(name, b"", new=new)
    assert documents.names() == ["a/b"]
    assert not list((tmp_path / "incoming").iterdir())


def test_a_new_disk_sees_all_that_is_behind(backed: World) -> None:
    first = backed.blobs("disk").documents
    for number in range(30):
        first.put(f"checkpoints/d/m/1/{number:02}.json", str(number).encode())
    assert backed.blobs("second").documents.get("checkpoints/d/m/1/07.json") == b"7"
    third = backed.blobs("third").documents
    assert third.names("checkpoints/") == first.names()
    assert third.get("checkpoints/d/m/1/29.json") == b"29"
    assert not backed.blobs("fourth").documents.put("checkpoints/d/m/1/03.json", b"another", new=True)
    assert backed.blobs("fourth").documents.get("checkpoints/d/m/1/03.json") == b"3"


def test_what_was_here_before_the_store_gets_there(backed: World, tmp_path: Path) -> None:
    assert backed.behind is not None
    FileDocuments(tmp_path / "disk").put("logs/a", b"early")
    documents = backed.blobs("disk").documents
    backed.behind.put_document("logs/b", b"only there", new=True)
    documents.settle()
    assert sorted(backed.behind.document_names()) == documents.names() == ["logs/a", "logs/b"]
    assert backed.behind.get_document("logs/a") == b"early"


def test_where_they_are_can_be_told(world: World) -> None:
    blobs = world.blobs("disk")
    digest = blobs.put_bytes(b"weights").digest
    for uri in (blobs.uri(digest), blobs.documents.uri("logs/a")):
        assert uri.startswith("file:///" if not uri.startswith("s3") else "s3://models/"), uri
        assert uri.endswith((digest.removeprefix("sha256:"), "/named/logs/a")), uri


class AwayAtTimes(Away):
    """Keeps documents, while it answers."""

    def __init__(self) -> None:
        self.there: dict[str, bytes] = {}
        self.away = False

    def uri(self, digest: str) -> str:
        return f"away://{digest}"

    def document_uri(self, name: str) -> str:
        return f"away:///{name}"

    def put_document(self, name: str, data: bytes, *, new: bool) -> bool:
        self._answer()
        if new and name in self.there:
            return False
        self.there[name] = data
        return True

    def get_document(self, name: str) -> bytes:
        self._answer()
        return self.there[name]

    def delete_document(self, name: str) -> None:
        self._answer()
        self.there.pop(name, None)

    def document_names(self) -> Iterator[str]:
        self._answer()
        return iter(list(self.there))

    def _answer(self) -> None:
        if self.away:
            raise OSError("no route")


def test_a_store_that_does_not_answer_holds_up_no_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    behind = AwayAtTimes()
    documents = BackedBlobs(tmp_path / "disk", behind).documents
    documents.put("a", b"1")
    documents.names()
    behind.away = True
    assert documents.names() == ["a"]
    assert documents.get("a") == b"1"
    writes: list[Callable[[], bool]] = [
        lambda: documents.put("b", b""),
        lambda: documents.put("b", b"", new=True),
        lambda: documents.delete("a"),
    ]
    for write in writes:
        with pytest.raises(Unavailable, match="no route"):
            write()
    assert documents.names() == ["a"], "what was not acknowledged is not there, and what was not deleted is"
    with pytest.raises(NotFound):
        documents.get("b")

    monkeypatch.setattr(backed_documents, "AGAIN", 0.0)
    new = BackedBlobs(tmp_path / "new", behind).documents
    assert new.names() == []
    with pytest.raises(Unavailable):
        new.get("a")
    behind.away = False
    assert new.names() == ["a"]
    assert new.get("a") == b"1"


def test_one_that_was_made_behind_alone_is_found(tmp_path: Path) -> None:
    """Whoever made it was killed before it was here."""
    behind = AwayAtTimes()
    documents = BackedBlobs(tmp_path / "disk", behind).documents
    documents.names()
    behind.there["checkpoints/x"] = json.dumps({"by": "the dead"}).encode()
    assert not documents.put("checkpoints/x", b"{}", new=True)
    assert documents.get("checkpoints/x") == b'{"by": "the dead"}'


def test_a_store_without_documents_leaves_them_here(tmp_path: Path) -> None:
    documents = BackedBlobs(tmp_path / "disk", Away()).documents
    assert documents.put("a", b"1", new=True)
    assert documents.get("a") == b"1"


def test_a_store_that_cannot_be_opened_takes_no_documents(tmp_path: Path) -> None:
    blobs = BackedBlobs(tmp_path / "disk", open_store("nowhere:///x"))
    with pytest.raises(Unavailable, match="'nowhere' is not the scheme"):
        blobs.documents.put("a", b"1")
    assert blobs.documents.names() == []
    assert blobs.documents.uri("a").startswith("file://")
