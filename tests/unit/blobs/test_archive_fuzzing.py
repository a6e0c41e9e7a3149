"""Archives of every kind of malice that chance finds: files inside, or an error that blames the sender."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.ingest.intake import path_fault
from mizzen.blobs.limits import IngestLimits
from mizzen.errors import BadRequest, Invalid, TooLarge
from tests.support.blobs.packing import FILES, member, outside, tarred, unpack, unpack_unstored, zipped
from tests.support.examples import examples

SMALL = IngestLimits(upload_bytes=1 << 20, unpacked_bytes=1 << 20, files=20)

PACKED = [
    tarred(FILES, mode, member("data/link", tarfile.SYMTYPE, "../model.py"), member("h", tarfile.LNKTYPE, "model.py"))
    for mode in ("w:", "w:gz", "w:bz2", "w:xz")
] + [zipped(FILES), zipped(FILES, zipfile.ZIP_STORED)]

fuzzing = settings(max_examples=examples(100), deadline=None)


def survives(data: bytes) -> None:
    """Either files inside, or one of our errors that blame the sender."""
    try:
        entries = unpack_unstored(data, SMALL)
    except (BadRequest, Invalid, TooLarge) as error:
        said = error.message
    else:
        said = "nothing is wrong"
        assert entries
        assert all(path_fault(entry.path) is None for entry in entries)
        assert len({entry.path.casefold() for entry in entries}) == len(entries)
        assert sum(entry.size for entry in entries) <= SMALL.unpacked_bytes
    assert said.isprintable()


changes_of = st.lists(
    st.tuples(st.integers(0, 1 << 16), st.binary(max_size=12), st.integers(0, 12)), min_size=1, max_size=6
)


def mutated(whole: bytes, changes: list[tuple[int, bytes, int]]) -> bytes:
    data = bytearray(whole)
    for place, new, cut in changes:
        start = place % (len(data) + 1)
        data[start : start + cut] = new
    return bytes(data)


@fuzzing
@given(st.sampled_from(PACKED), changes_of)
def test_mutated_archives(whole: bytes, changes: list[tuple[int, bytes, int]]) -> None:
    survives(mutated(whole, changes))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PACKED), changes_of)
def test_mutated_archives_leave_nothing_but_blobs(
    tmp_path: Path, whole: bytes, changes: list[tuple[int, bytes, int]]
) -> None:
    with suppress(BadRequest, Invalid, TooLarge):
        unpack(FileBlobs(tmp_path / "blobs"), mutated(whole, changes), SMALL)
    assert outside(tmp_path) == []
    assert not list((tmp_path / "blobs" / "incoming").glob("*"))


@fuzzing
@given(st.integers(0, 11264 // 512), st.integers(0, 499), st.binary(min_size=1, max_size=20))
def test_mutated_headers_with_good_checksums(block: int, place: int, new: bytes) -> None:
    data = bytearray(PACKED[0])
    start = 512 * block
    header = data[start : start + 512]
    if len(header) == 512:
        header[place : place + len(new)] = new[: 512 - place]
        header = header[:512]
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        data[start : start + 512] = header
    survives(bytes(data))


names = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.lists(st.sampled_from(["..", ".", "", "a", "b", "A", "\\", "C:", "\u00e9", "e\u0301"]), max_size=5).map(
        "/".join
    ),
)
kinds = st.sampled_from([tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])


@fuzzing
@given(
    st.lists(st.tuples(names, st.binary(max_size=40)), max_size=6), st.lists(st.tuples(names, kinds, names), max_size=5)
)
def test_hostile_names_and_links(files: list[tuple[str, bytes]], links: list[tuple[str, bytes, str]]) -> None:
    survives(tarred(dict(files), "w:", *(member(*link) for link in links)))
    survives(zipped({name: data for name, data in files if name.partition("\0")[0]}))


@fuzzing
@given(st.binary(max_size=3000))
def test_anything_at_all(data: bytes) -> None:
    for made in (data, gzip.compress(data), b"PK\x03\x04" + data):
        survives(made)
