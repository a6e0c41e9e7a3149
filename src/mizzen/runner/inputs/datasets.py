"""The dataset of a job: fetched and verified as a whole, or absent. One replica fetches, the others wait for it.

    training/<uid>/dataset/         what the command gets, in one rename
    training/<uid>/.dataset.json    which dataset that is; written after it
    training/<uid>/.dataset.new/    one being fetched

A local path is used directly. For a single file, the folder holds a link to it with the same name.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from mizzen.errors import Invalid, MizzenError, NotFound, TooLarge, Unavailable
from mizzen.runner.checkpoints.ledger import locked
from mizzen.runner.failures import Failed, describe, is_full
from mizzen.runs import records
from mizzen.runs.paths import JobPlace

if TYPE_CHECKING:
    from mizzen.blobs.disk_room import Room
    from mizzen.blobs.ingest.spool import Spool
    from mizzen.blobs.object_store_credentials import Credentials

ACCESS_KEY_ID, SECRET_ACCESS_KEY = "MIZZEN_DATASET_ACCESS_KEY_ID", "MIZZEN_DATASET_SECRET_ACCESS_KEY"
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")
"""Suffixes of archives, which are unpacked; any other http download is one file in the folder."""
_REASON = "DatasetUnavailable"
_MOST_BYTES, _MOST_FILES = 1 << 50, 1_000_000
_PATIENCE = 60.0
"""Seconds for which an unresponsive store is retried."""

Tell = Callable[[str], None]


def fetch_dataset(
    dataset: Mapping[str, Any],
    job: JobPlace,
    environ: Mapping[str, str],
    room: Room | None,
    *,
    trusted: bool,
    tell: Tell,
) -> Path:
    """Return the folder for the command. Blocking. Raises Failed.

    `trusted`: the user who started the job may send requests to this machine's own network.
    """
    path = dataset.get("path")
    if path is not None and not Path(path).exists():
        raise Failed(_REASON, f"the dataset's path {path} is not there, on the machine where the job runs")
    if path is not None and Path(path).is_dir():
        return Path(path)
    marker = job.folder / ".dataset.json"
    try:
        tell("waiting for another replica, which fetches the dataset")
        with locked(job.folder / ".dataset.lock"):
            if records.read(marker) == dict(dataset) and job.dataset.is_dir():
                return job.dataset
            marker.unlink(missing_ok=True)
            new = job.folder / ".dataset.new"
            _bring(dataset, new, environ, room, trusted=trusted, tell=tell)
            shutil.rmtree(job.dataset, ignore_errors=True)
            new.rename(job.dataset)
            records.write(marker, dict(dataset))
    except (MizzenError, OSError) as error:
        if is_full(error):
            raise Failed("NoRoom", f"the dataset does not fit on the disk: {describe(error)}", retry=True) from error
        raise Failed(_REASON, f"the dataset cannot be had: {describe(error)}") from error
    return job.dataset


def _bring(
    dataset: Mapping[str, Any],
    new: Path,
    environ: Mapping[str, str],
    room: Room | None,
    *,
    trusted: bool,
    tell: Tell,
) -> None:
    if dataset.get("s3") is not None:
        _from_bucket(dataset["s3"], new, environ, room, private=trusted, tell=tell)
        return
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    if dataset.get("path") is not None:
        path = Path(dataset["path"])
        (new / path.name).symlink_to(path)
    elif dataset.get("http") is not None:
        _from_web(dataset["http"], new, room, private=trusted, tell=tell)
    else:
        raise Failed(_REASON, "the dataset is neither s3 nor http nor path")


def _from_web(http: Mapping[str, Any], new: Path, room: Room | None, *, private: bool, tell: Tell) -> None:
    import asyncio

    from mizzen.blobs.ingest import download
    from mizzen.blobs.ingest.spool import Spool

    url, wanted = http["url"], http.get("sha256sum")
    shown = download.redact_url(url)
    name = _file_name(url)
    with Spool(new, room=room) as spool:
        try:
            asyncio.run(_fetch(url, spool, wanted.lower() if wanted else None, private=private, tell=tell))
        except Invalid as error:
            why = "; ".join(fault.message for fault in error.faults) or error.message
            raise Failed(_REASON, f"the dataset {shown} cannot be had: {why}") from error
        if name.lower().endswith(ARCHIVES):
            tell(f"unpacking {name}")
            try:
                _unpack(spool, new)
            except (Invalid, TooLarge, MizzenError) as error:
                if is_full(error):
                    raise
                raise Failed(_REASON, f"the dataset {shown} cannot be unpacked: {describe(error)}") from error
        else:
            os.chmod(spool.path, 0o444)
            spool.path.rename(new / name)


async def _fetch(url: str, spool: Spool, wanted: str | None, *, private: bool, tell: Tell) -> None:
    from mizzen.blobs.ingest import download

    def report(done: int, total: int | None) -> None:
        tell(_progress(done, total))

    tell("fetching the dataset")
    await download.fetch(url, spool, wanted, download.DownloadPolicy(private=private), report)


def _unpack(spool: Spool, new: Path) -> None:
    """Unpack through a separate blob store, with the checks that an untrusted archive needs; then link files to their
    names."""
    from mizzen.blobs.file_store import FileBlobs
    from mizzen.blobs.ingest import archives
    from mizzen.blobs.ingest.intake import Intake
    from mizzen.blobs.limits import IngestLimits

    limits = IngestLimits(upload_bytes=_MOST_BYTES, unpacked_bytes=_MOST_BYTES, files=_MOST_FILES)
    scratch = FileBlobs(new / ".unpacking")
    with scratch.batch() as put:
        intake = Intake(put, limits, spool.size)
        archives.unpack(spool.content(), spool.size, intake, limits)
        entries = intake.entries()
    for entry in entries:
        place = new / entry.path
        place.parent.mkdir(parents=True, exist_ok=True)
        os.link(scratch.path(entry.digest), place)
    shutil.rmtree(scratch.root)


def _from_bucket(
    s3: Mapping[str, Any], new: Path, environ: Mapping[str, str], room: Room | None, *, private: bool, tell: Tell
) -> None:
    from mizzen.blobs.ingest import buckets

    tell("fetching the dataset")
    deadline, pause = time.monotonic() + _PATIENCE, 1.0
    while True:
        try:
            buckets.fetch_prefix(
                s3["bucket"],
                s3.get("prefix", ""),
                new,
                _credentials(s3, environ),
                lambda done, total: tell(_progress(done, total)),
                room=room,
                private=private or not s3.get("endpoint"),  # an admin configured the plane's own endpoint
            )
        except (NotFound, Invalid) as error:
            raise Failed(_REASON, f"the dataset cannot be had: {describe(error)}") from error
        except Unavailable as error:
            if is_full(error) or time.monotonic() > deadline:
                raise
            tell(f"fetching the dataset, again after: {describe(error)}")
            time.sleep(pause)
            pause = min(2 * pause, 10.0)
        else:
            shutil.rmtree(new.parent / f".{new.name}.parts", ignore_errors=True)
            return


def _credentials(s3: Mapping[str, Any], environ: Mapping[str, str]) -> Credentials:
    """Return the dataset's credentials; if it names none, those of the plane's own store."""
    from mizzen.blobs.object_store_credentials import Credentials
    from mizzen.blobs.open_from_env import credentials_of

    own = credentials_of(environ)
    if s3.get("secret"):
        keys = environ.get(ACCESS_KEY_ID, ""), environ.get(SECRET_ACCESS_KEY, "")
    elif s3.get("endpoint"):  # another store: the plane's keys are not for it
        keys = "", ""
    else:
        keys = own.access_key_id, own.secret_access_key
    return Credentials(s3.get("endpoint") or own.endpoint, s3.get("region") or own.region, *keys)


def _file_name(url: str) -> str:
    from mizzen.blobs.ingest.intake import path_fault

    name = PurePosixPath(unquote(urlsplit(url).path)).name
    return name if name and not name.startswith(".") and path_fault(name) is None else "data"


def _progress(done: int, total: int | None) -> str:
    of = f" of {total / 1e6:,.0f}" if total else ""
    return f"fetching the dataset: {done / 1e6:,.0f}{of} MB"
