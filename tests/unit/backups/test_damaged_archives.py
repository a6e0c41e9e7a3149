"""Files that are no backups, or no longer: refused before anything is written, whatever is in them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.backups import archive
from mizzen.backups.manifest import is_known
from mizzen.errors import BadRequest, MizzenError
from tests.support.backups.folders import backup, data_dir, restore


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    backup(data_dir(folder / "data", b"one", os.urandom(2000)), folder / "b.tar")
    return (folder / "b.tar").read_bytes()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("place")


def refused(place: Path, data: bytes) -> str:
    (place / "b.tar").write_bytes(data)
    with pytest.raises(MizzenError) as error:
        restore(place / "b.tar", place / "again")
    assert isinstance(error.value, BadRequest)
    assert error.value.hint
    assert os.listdir(place) == ["b.tar"]
    return error.value.message


@given(data=st.data())
def test_one_bit_is_enough(whole: bytes, place: Path, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(whole) - 1))
    altered = bytearray(whole)
    altered[at] ^= 1 << data.draw(st.integers(0, 7))
    refused(place, bytes(altered))


@given(data=st.data())
def test_a_cut_anywhere(whole: bytes, place: Path, data: st.DataObject) -> None:
    refused(place, whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_more_behind_the_end(whole: bytes, place: Path) -> None:
    assert "data after its end" in refused(place, whole + b"\0")


def made(*members: tuple[tarfile.TarInfo, bytes], sealed: bool = True) -> bytes:
    """A tar with a manifest that vouches for all of it."""
    items = [
        {"path": head.name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for head, data in members
    ]
    manifest = {
        "format": 1, "mizzen": "1", "schema": 1, "taken": "", "resource_version": 1, "keys": False, "beside": False,
        "items": items, "absent": [],
    }  # fmt: skip
    text = json.dumps(manifest).encode()
    stream = io.BytesIO()
    writer = archive.ArchiveWriter(stream, lambda _: None)
    for head, data in members:
        head.size, head.mode = len(data), 0o600
        stream.write(head.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512))
    if sealed:
        for name, data in (("manifest.json", text), ("manifest.sha256", hashlib.sha256(text).hexdigest().encode())):
            writer.add(name, io.BytesIO(data), len(data), 0)
    return stream.getvalue() + bytes(1024)


def head(name: str, type_: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = type_, link
    return found


@pytest.mark.parametrize(
    "name",
    [
        "../outside", "/etc/passwd", "tls/../../outside", "tls/", "tls/a/b", "blobs/../x", "run/boot.json",
        "ports.json",
        "blobs/sha256/aa/" + "b" * 64, "work/x", "./mizzen.db", "", "a\nb", "table.json", "mizzen.db-wal", ".hidden",
        "tls/..", "tls/.x", "blobs/sha256/bb/" + "b" * 63, "etc.pem/x",
    ],
)  # fmt: skip
def test_names_that_lead_elsewhere(place: Path, name: str) -> None:
    assert not is_known(name)
    refused(place, made((head(name), b"data")))


@pytest.mark.parametrize(
    ("type_", "link"),
    [
        (tarfile.SYMTYPE, "/etc"), (tarfile.LNKTYPE, "/etc/passwd"), (tarfile.DIRTYPE, ""), (tarfile.CHRTYPE, ""),
        (tarfile.FIFOTYPE, ""), (tarfile.XHDTYPE, ""), (tarfile.GNUTYPE_LONGNAME, ""), (tarfile.GNUTYPE_SPARSE, ""),
        (tarfile.AREGTYPE, ""),
    ],
)  # fmt: skip
def test_what_is_no_plain_file(place: Path, type_: bytes, link: str) -> None:
    assert "not a regular file" in refused(place, made((head("settings.toml", type_, link), b"")))


def test_a_file_twice(place: Path) -> None:
    assert "twice" in refused(place, made((head("settings.toml"), b"a"), (head("settings.toml"), b"a")))


def test_what_is_no_database(place: Path) -> None:
    assert "not a database" in refused(place, made((head("mizzen.db"), b"no database at all" * 1000)))
    assert "does not contain a database" in refused(place, made((head("settings.toml"), b"a")))


def test_something_else(place: Path) -> None:
    refused(place, b"")
    refused(place, b"#!/bin/sh\n" * 1000)
    assert "no manifest" in refused(place, made((head("settings.toml"), b"a"), sealed=False))
    assert "no manifest" in refused(place, bytes(1024))
