"""Uploads: an archive as the body, or a form with the field `code`. Streamed to a spool, never held in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from mizzen.blobs.fs.content import CHUNK
from mizzen.blobs.ingest.spool import Spool
from mizzen.errors import BadRequest, Fault, Invalid, TooLarge
from mizzen.kinds.schema.findings import unknown
from mizzen.server.http.request_bodies import media_type

ARCHIVE_TYPES = frozenset({
    "application/gzip", "application/x-gzip", "application/x-tar", "application/x-gtar", "application/zip",
    "application/x-zip-compressed", "application/x-bzip2", "application/x-xz", "application/x-compressed-tar",
    "application/octet-stream",
})  # fmt: skip
FORM = "multipart/form-data"
FIELD = "code"
MOST_TEXT = 64 << 10
MOST_FIELDS = 20


def has_files(request: Request) -> bool:
    return media_type(request) in ARCHIVE_TYPES | {FORM}


@dataclass(slots=True)
class UploadForm:
    """The fields of a form other than the file."""

    file_name: str = ""
    """The sender's name of the file; empty for a body that is an archive."""
    texts: dict[str, str] = field(default_factory=dict)


async def receive(request: Request, spool: Spool, most: int, known: Collection[str]) -> UploadForm:
    """Fills the spool with the file. `known`: the other fields that a form may have.

    Raises BadRequest, Invalid, TooLarge, Unavailable.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:18]) > most + MOST_FIELDS * MOST_TEXT:
        raise TooLarge(f"the body has {declared} bytes; the limit is {most:,}", hint="see the setting max_upload_bytes")
    if media_type(request) == FORM:
        return await _receive_form(request, spool, known)
    async for chunk in read_chunks(request):
        await asyncio.to_thread(spool.write, chunk)
    return UploadForm()


async def read_chunks(request: Request) -> AsyncIterator[bytes]:
    """Yields the body in chunks large enough to be worth a thread."""
    gathered = bytearray()
    try:
        async for chunk in request.stream():
            gathered += chunk
            if len(gathered) >= CHUNK:
                yield bytes(gathered)
                gathered.clear()
    except ClientDisconnect as error:
        if gathered:
            yield bytes(gathered)
        raise BadRequest("the connection closed before the whole body arrived") from error
    if gathered:
        yield bytes(gathered)


async def _receive_form(request: Request, spool: Spool, known: Collection[str]) -> UploadForm:
    _, parameters = parse_options_header(request.headers.get("content-type", ""))
    reader = _FormReader(parameters.get(b"boundary", b""), known)
    async for chunk in read_chunks(request):
        data = reader.feed(chunk)
        if data:
            await asyncio.to_thread(spool.write, data)
    return reader.finish()


class _FormReader:
    """Parses a form as it arrives: passes the file on, and holds all other fields, which are short."""

    def __init__(self, boundary: bytes, known: Collection[str]) -> None:
        if not boundary:
            raise BadRequest("the form has no boundary", hint="send 'Content-Type: multipart/form-data; boundary=…'")
        self._known = known
        self._form = UploadForm()
        self._has_file = False
        self._ended = False
        self._file = bytearray()
        self._header: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self._disposition = b""
        self._name = ""
        self._text = bytearray()
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                "on_header_end": self._end_header,
                "on_headers_finished": self._end_headers,
                "on_part_data": self._data,
                "on_part_end": self._end,
                "on_end": self._end_all,
            },
        )

    def feed(self, chunk: bytes) -> bytes:
        """Returns the part of the file in this chunk."""
        try:
            self._parser.write(chunk)
        except (FormParserError, ValueError) as error:
            raise BadRequest(f"the form cannot be read: {error}") from error
        data = bytes(self._file)
        self._file.clear()
        return data

    def finish(self) -> UploadForm:
        if not self._ended:
            raise BadRequest("the form is incomplete")
        faults = unknown(self._form.texts, (FIELD, *self._known))
        if not self._has_file:
            faults += (Fault(FIELD, "required: the file or archive of the version"),)
        if faults:
            raise Invalid.of("the version", faults)
        return self._form

    def _begin(self) -> None:
        self._disposition, self._name, self._text = b"", "", bytearray()

    def _end_header(self) -> None:
        name, value = self._header
        if bytes(name).lower() == b"content-disposition":
            self._disposition = bytes(value)
        self._header = (bytearray(), bytearray())

    def _end_headers(self) -> None:
        _, parameters = parse_options_header(self._disposition)
        self._name = parameters.get(b"name", b"").decode(errors="replace")
        if self._name == FIELD:
            if self._has_file:
                raise BadRequest(f"the field '{FIELD}' is given twice", hint="pack several files into one archive")
            self._has_file = True
            self._form.file_name = parameters.get(b"filename", b"").decode(errors="surrogateescape")
        elif not self._name:
            raise BadRequest("a part of the form has no name")
        elif b"filename" in parameters and self._name not in self._known:
            wrong = f"unknown field '{self._name[:100]}'; send the file as '{FIELD}'"
            raise Invalid.of("the version", (Fault("", wrong),))
        elif self._name in self._form.texts or len(self._form.texts) >= MOST_FIELDS:
            raise BadRequest(f"the field '{self._name[:100]}' is given twice, or the form has too many fields")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name == FIELD:
            self._file += data[start:end]
            return
        self._text += data[start:end]
        if len(self._text) > MOST_TEXT:
            raise TooLarge(f"the field '{self._name[:100]}' has more than {MOST_TEXT:,} bytes")

    def _end(self) -> None:
        if self._name == FIELD:
            return
        try:
            self._form.texts[self._name] = self._text.decode()
        except UnicodeDecodeError as error:
            raise BadRequest(f"the field '{self._name[:100]}' is not UTF-8") from error

    def _end_all(self) -> None:
        self._ended = True
