"""Archives: whoever wrote them, nothing leaves its place, nothing grows without bound, and damage is no end."""

from __future__ import annotations

import gzip
import io
import lzma
import stat
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mizzen.blobs.file_store import Entry, FileBlobs
from mizzen.blobs.ingest import archives
from mizzen.blobs.ingest.intake import without_top
from mizzen.blobs.limits import FREE, IngestLimits
from mizzen.errors import BadRequest, Invalid, TooLarge
from tests.support.blobs.packing import FILES, content, member, outside, tarred, unpack, zipped

SMALL = IngestLimits(upload_bytes=1 << 20, unpacked_bytes=1 << 20, files=20)


# -- good ones


@pytest.mark.parametrize("mode", ["w:", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("style", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tars_of_every_kind(blobs: FileBlobs, mode: str, style: int) -> None:
    long = "/".join(["folder" * 10] * 4) + "/file"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, format=style) as archive:  # type: ignore[call-overload]
        archive.addfile(member("./", tarfile.DIRTYPE))
        files = {**FILES, **({long: b"deep", "ünïcode": b"u"} if style != tarfile.USTAR_FORMAT else {})}
        for name, data in files.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    assert content(blobs, unpack(blobs, buffer.getvalue())) == files


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zips(blobs: FileBlobs, method: int) -> None:
    assert content(blobs, unpack(blobs, zipped(FILES, method))) == FILES


def test_several_compressed_streams_and_padding(blobs: FileBlobs) -> None:
    plain = tarred(FILES, "w:")
    for pack in (gzip.compress, lzma.compress):
        data = pack(plain[:700]) + pack(plain[700:]) + bytes(100)
        assert content(blobs, unpack(blobs, data)) == FILES


def test_the_content_says_what_it_is() -> None:
    assert archives.format_of(io.BytesIO(tarred(FILES))) == "tar"
    assert archives.format_of(io.BytesIO(zipped(FILES))) == "zip"
    for other in (b"", b"x", bytes(4096), gzip.compress(b"a pickle"), b"\x1f\x8b", b"\x80\x04K\x01." * 300):
        assert archives.format_of(io.BytesIO(other)) is None


def test_links_within_are_copies(blobs: FileBlobs) -> None:
    data = tarred(
        FILES,
        "w:gz",
        member("data/link", tarfile.SYMTYPE, "../model.py"),
        member("hard", tarfile.LNKTYPE, "./model.py"),
    )
    found = content(blobs, unpack(blobs, data))
    assert found == {**FILES, "data/link": FILES["model.py"], "hard": FILES["model.py"]}


def test_what_tools_leave_is_left_out(blobs: FileBlobs) -> None:
    junk = {"a/__pycache__/x.pyc": b"x", ".git/config": b"x", "__MACOSX/._a": b"x", "b.pyc": b"x", ".complete": b""}
    assert content(blobs, unpack(blobs, tarred({**FILES, **junk}))) == FILES


@pytest.mark.parametrize(
    ("paths", "entrypoint", "left"),
    [
        (["top/a", "top/b/c"], None, ["a", "b/c"]),
        (["top/a", "b"], None, ["top/a", "b"]),
        (["top/a", "other/b"], None, ["top/a", "other/b"]),
        (["pkg/__init__.py", "pkg/m.py"], "pkg.m:predict", ["pkg/__init__.py", "pkg/m.py"]),
        (["pkg/m.py"], "m:predict", ["m.py"]),
        (["pkg/m.pkl"], "pkg/m.pkl", ["pkg/m.pkl"]),
        (["one"], None, ["one"]),
    ],
)
def test_one_common_folder_is_stripped(paths: list[str], entrypoint: str | None, left: list[str]) -> None:
    entries = tuple(Entry(path, "sha256:" + "0" * 64, 1) for path in paths)
    assert [entry.path for entry in without_top(entries, entrypoint)] == left


# -- bad names and links

HOSTILE = [
    "/etc/passwd", "../up", "a/../../up", "a/..", "..", "a\\..\\b", "C:/x", "c:x", "a\0b", "a\nb", "\x7f", "a//b",
    "a/./b", "x" * 256, "y/" * 600 + "z",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("pack", [tarred, zipped])
def test_names_that_do_not_fit(
    blobs: FileBlobs, tmp_path: Path, name: str, pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    if pack is tarred and "\0" in name:
        data = tarred({"good": b"x"}, "w:gz", pax_member(name))
    elif pack is zipped and "\0" in name:
        data = zipped({"good": b"x", "a_b": b"x"}).replace(b"a_b", name.encode())
    else:
        data = pack({"good": b"x", name: b"bad"})
    with pytest.raises(Invalid) as refused:
        unpack(blobs, data)
    assert len(refused.value.faults) == 1
    assert outside(tmp_path) == []


def pax_member(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo("plain")
    info.pax_headers = {"path": name}
    return info


def test_names_that_are_no_text(blobs: FileBlobs) -> None:
    data = tarred({"a_b": b"x"}, "w:").replace(b"a_b", b"a\xffb")
    broken = bytearray(data)
    broken[148:156] = b"%06o\0 " % (sum(data[:148]) + 8 * 32 + sum(data[156:512]))
    with pytest.raises(Invalid, match="UTF-8"):
        unpack(blobs, bytes(broken))


def test_all_faults_at_once(blobs: FileBlobs, tmp_path: Path) -> None:
    data = tarred(
        {"ok": b"1", "../up": b"2", "A/x": b"3", "a/X": b"4", "file": b"5", "file/in": b"6"},
        "w:gz",
        member("pipe", tarfile.FIFOTYPE),
        member("disk", tarfile.BLKTYPE),
        member("out", tarfile.SYMTYPE, "../../etc/passwd"),
        member("abs", tarfile.SYMTYPE, "/etc/passwd"),
        member("hard", tarfile.LNKTYPE, "../x"),
        member("none", tarfile.SYMTYPE, "nothing"),
        member("loop", tarfile.SYMTYPE, "loop"),
        member("chain", tarfile.SYMTYPE, "loop"),
        member("to-folder", tarfile.SYMTYPE, "A"),
        member("ok", tarfile.LNKTYPE, "file"),
    )
    with pytest.raises(Invalid) as refused:
        unpack(blobs, data)
    found = {fault.path: fault.message for fault in refused.value.faults}
    assert set(found) == {
        "../up", "a/X", "file", "pipe", "disk", "out", "abs", "hard", "none", "loop", "chain", "to-folder", "ok",
    }  # fmt: skip
    assert "device" in found["disk"]
    assert "outside" in found["out"]
    assert found["ok"] == "named twice"
    assert outside(tmp_path) == []


def test_links_in_a_zip(blobs: FileBlobs) -> None:
    def linked(target: str) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("a/file", b"content")
            info = zipfile.ZipInfo("a/link")
            info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, target)
        return buffer.getvalue()

    assert content(blobs, unpack(blobs, linked("file"))) == {"a/file": b"content", "a/link": b"content"}
    for target in ("../../file", "/etc/passwd", "link", "C:\\x", "", "none"):
        with pytest.raises(Invalid):
            unpack(blobs, linked(target))


def test_nothing_in_it(blobs: FileBlobs) -> None:
    for data in (zipped({}), tarred({}, "w:gz", member("folder", tarfile.DIRTYPE)), tarred({"x.pyc": b""})):
        with pytest.raises(Invalid, match="no files"):
            unpack(blobs, data)


# -- too much


@pytest.mark.parametrize("pack", [tarred, zipped])
def test_too_many_files_and_too_large_ones(blobs: FileBlobs, pack: Callable[[dict[str, bytes]], bytes]) -> None:
    with pytest.raises(Invalid, match="more than 20 files"):
        unpack(blobs, pack({str(number): b"" for number in range(21)}), SMALL)
    with pytest.raises(TooLarge, match="'second'") as refused:
        unpack(blobs, pack({"first": bytes(600_000), "second": bytes(600_000)}), SMALL)
    assert "max_unpacked_bytes" in refused.value.hint


def test_copies_by_links_count(blobs: FileBlobs) -> None:
    links = [member(f"link-{number}", tarfile.SYMTYPE, "first") for number in range(10)]
    with pytest.raises(TooLarge):
        unpack(blobs, tarred({"first": bytes(200_000)}, "w:gz", *links), SMALL)


def zip_bomb(size: int) -> bytes:
    return zipped({"zeros": bytes(size)})


def tar_bomb(size: int) -> bytes:
    return tarred({"zeros": bytes(size)})


def skipped_bomb(size: int) -> bytes:
    return tarred({"zeros.pyc": bytes(size), "x": b"x"})


def xz_bomb(size: int) -> bytes:
    return tarred({"zeros": bytes(size)}, "w:xz")


@pytest.mark.parametrize("bomb", [zip_bomb, tar_bomb, skipped_bomb, xz_bomb])
def test_bombs_go_out_in_bounded_memory(blobs: FileBlobs, tmp_path: Path, bomb: Callable[[int], bytes]) -> None:
    data = bomb(FREE + (48 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="bomb"):
            unpack(blobs, data)
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()
    assert outside(tmp_path) == []


def raw_header(name: bytes, size: int, kind: bytes) -> bytes:
    info = tarfile.TarInfo("x")
    block = bytearray(info.tobuf())
    block[0 : len(name)] = name
    block[124:136] = b"%011o\0" % size
    block[156:157] = kind
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_headers_are_not_read_into_memory_however_long(blobs: FileBlobs, kind: bytes) -> None:
    size = 48 << 20
    data = gzip.compress(raw_header(b"h", size, kind) + bytes(size) + raw_header(b"x", 0, b"0") + bytes(1024), 1)
    tracemalloc.start()
    try:
        with pytest.raises(BadRequest):
            unpack(blobs, data)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_headers_within_headers_without_end(blobs: FileBlobs) -> None:
    pax = raw_header(b"h", 12, b"x") + b"12 path=abc\n".ljust(512, b"\0")
    with pytest.raises(BadRequest):
        unpack(blobs, gzip.compress(pax * 5000 + raw_header(b"x", 0, b"0") + bytes(1024)))


def test_sparse_files_are_refused(blobs: FileBlobs) -> None:
    block = bytearray(raw_header(b"sparse", 0, b"S"))
    block[483:495] = b"%011o\0" % (1 << 32)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    with pytest.raises(Invalid, match="sparse"):
        unpack(blobs, bytes(block) + bytes(1024))


def test_xz_takes_no_memory_it_was_told_to_take(blobs: FileBlobs) -> None:
    data = bytearray(tarred(FILES, "w:xz"))
    end = 12 + (data[12] + 1) * 4  # of the header of the first block
    dictionary = data.index(b"\x21\x01", 12, end) + 2
    data[dictionary] = 38  # says two GiB
    data[end - 4 : end] = zlib.crc32(data[12 : end - 4]).to_bytes(4, "little")
    assert content(blobs, unpack(blobs, tarred(FILES, "w:xz"))) == FILES
    with pytest.raises(BadRequest):
        unpack(blobs, bytes(data))


# -- damaged ones


@pytest.mark.parametrize("mode", ["w:", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_cut_off_anywhere_is_refused(blobs: FileBlobs, mode: str) -> None:
    whole = tarred({"a": b"x" * 700, "b": b"y"}, mode)
    end = len(tarred({"a": b"x" * 700, "b": b"y"}, "w:").rstrip(b"\0")) if mode == "w:" else len(whole)
    for length in sorted({*range(0, end, 97), 512, 1024, 1536, 2048, end - 1}):
        if length < end:
            with pytest.raises((BadRequest, Invalid)):
                unpack(blobs, whole[:length])


def test_a_damaged_header_in_the_middle_is_no_end(blobs: FileBlobs) -> None:
    data = bytearray(tarred({"a": b"", "b": b"", "c": b""}, "w:"))
    data[512] ^= 0xFF
    with pytest.raises(BadRequest, match="damaged"):
        unpack(blobs, bytes(data))


def test_a_zip_that_lies(blobs: FileBlobs) -> None:
    good = zipped({"a": b"x" * 1000}, zipfile.ZIP_STORED)
    directory = good.rindex(b"PK\x01\x02")
    longer = good[: directory + 24] + struct.pack("<L", 999_999_999) + good[directory + 28 :]
    with pytest.raises(BadRequest):
        unpack(blobs, longer)
    crc = good[: directory + 16] + struct.pack("<L", 7) + good[directory + 20 :]
    with pytest.raises(BadRequest):
        unpack(blobs, crc)
    with pytest.raises(BadRequest):
        unpack(blobs, good[:-10])
    with pytest.raises(BadRequest):
        unpack(blobs, good[: directory - 100] + good[directory:])


def test_encrypted_and_strangely_packed_members(blobs: FileBlobs) -> None:
    data = bytearray(zipped({"secret": b"x"}))
    directory = data.rindex(b"PK\x01\x02")
    data[6] |= 1
    data[directory + 8] |= 1
    with pytest.raises(Invalid, match="encrypted"):
        unpack(blobs, bytes(data))
    with pytest.raises(Invalid, match="deflate"):
        unpack(blobs, zipped({"a": b"x" * 100}, zipfile.ZIP_LZMA))


def test_members_that_lie_over_each_other(blobs: FileBlobs) -> None:
    """Each of many entries of the directory names the same packed bytes."""
    good = zipped({"a": bytes(100_000)})
    start = good.rindex(b"PK\x01\x02")
    end = good.rindex(b"PK\x05\x06")
    entry = good[start:end]
    directory = entry * 10
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 10, 10, len(directory), start, 0)
    with pytest.raises(BadRequest, match="overlaps another"):
        unpack(blobs, good[:start] + directory + tail)


def test_a_directory_of_any_size_is_not_read(blobs: FileBlobs) -> None:
    entry = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    directory = entry * 300_000
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, len(directory), 4, 0)
    data = b"PK\x03\x04" + directory + tail
    tracemalloc.start()
    try:
        with pytest.raises(BadRequest, match="directory"):
            unpack(blobs, data)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
