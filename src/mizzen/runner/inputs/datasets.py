"""The dataset of a job: fetched and verified as a whole, or absent. One replica fetches, the others wait for it.

    training/<uid>/dataset/         the folder for the command, put in place by one rename
    training/<uid>/.dataset.json    the dataset in it; written after the rename
    training/<uid>/.dataset.new/    a dataset that is being fetched

A local path is used directly. For a single file, the folder holds a link to it with the same name.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from mizzen.errors import Invalid, MizzenError, NotFound, Unavailable
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


@dataclass(frozen=True, slots=True)
class DatasetFetcher:
    """Fetches the dataset of a job. Blocking. Raises Failed."""

    dataset: Mapping[str, Any]
    environ: Mapping[str, str]
    room: Room | None
    report: Callable[[str], None]
    trusted: bool = field(kw_only=True)
    """The user who started the job may send requests to this machine's own network."""

    def fetch(self, job: JobPlace) -> Path:
        """Return the folder for the command."""
        path = self.dataset.get("path")
        if path is not None and not Path(path).exists():
            raise Failed(_REASON, f"the dataset's path {path} does not exist on the machine where the job runs")
        if path is not None and Path(path).is_dir():
            return Path(path)
        marker = job.folder / ".dataset.json"
        try:
            self.report("waiting for another replica to fetch the dataset")
            with locked(job.folder / ".dataset.lock"):
                if records.read(marker) == dict(self.dataset) and job.dataset.is_dir():
                    return job.dataset
                marker.unlink(missing_ok=True)
                new = job.folder / ".dataset.new"
                self._fetch_into(new)
                shutil.rmtree(job.dataset, ignore_errors=True)
                new.rename(job.dataset)
                records.write(marker, dict(self.dataset))
        except (MizzenError, OSError) as error:
            if is_full(error):
                raise Failed(
                    "NoRoom", f"the dataset does not fit on the disk: {describe(error)}", retry=True
                ) from error
            raise Failed(_REASON, f"the dataset cannot be fetched: {describe(error)}") from error
        return job.dataset

    def _fetch_into(self, new: Path) -> None:
        if self.dataset.get("s3") is not None:
            self._copy_bucket(self.dataset["s3"], new)
            return
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        if self.dataset.get("path") is not None:
            path = Path(self.dataset["path"])
            (new / path.name).symlink_to(path)
        elif self.dataset.get("http") is not None:
            self._download(self.dataset["http"], new)
        else:
            raise Failed(_REASON, "the dataset must have s3, http or path")

    def _download(self, http: Mapping[str, Any], new: Path) -> None:
        import asyncio

        from mizzen.blobs.ingest import download
        from mizzen.blobs.ingest.spool import Spool

        url, digest = http["url"], http.get("sha256sum")
        shown, name = download.redact_url(url), _file_name(url)
        with Spool(new, room=self.room) as spool:
            self.report("fetching the dataset")
            policy = download.DownloadPolicy(private=self.trusted)
            try:
                asyncio.run(download.fetch(url, spool, digest.lower() if digest else None, policy, self._report_bytes))
            except Invalid as error:
                why = "; ".join(fault.message for fault in error.faults) or error.message
                raise Failed(_REASON, f"the dataset {shown} cannot be fetched: {why}") from error
            if name.lower().endswith(ARCHIVES):
                self.report(f"unpacking {name}")
                try:
                    _unpack(spool, new)
                except MizzenError as error:
                    if is_full(error):
                        raise
                    raise Failed(_REASON, f"the dataset {shown} cannot be unpacked: {describe(error)}") from error
            else:
                os.chmod(spool.path, 0o444)
                spool.path.rename(new / name)

    def _copy_bucket(self, s3: Mapping[str, Any], new: Path) -> None:
        from mizzen.blobs.ingest import buckets

        private = self.trusted or not s3.get("endpoint")  # an admin configured the plane's own endpoint
        deadline, pause = time.monotonic() + _PATIENCE, 1.0
        self.report("fetching the dataset")
        while True:
            try:
                buckets.fetch_prefix(
                    s3["bucket"], s3.get("prefix", ""), new, self._credentials(s3), self._report_bytes,
                    room=self.room, private=private,
                )  # fmt: skip
            except (NotFound, Invalid) as error:
                raise Failed(_REASON, f"the dataset cannot be fetched: {describe(error)}") from error
            except Unavailable as error:
                if is_full(error) or time.monotonic() > deadline:
                    raise
                self.report(f"fetching the dataset; retrying after: {describe(error)}")
                time.sleep(pause)
                pause = min(2 * pause, 10.0)
            else:
                shutil.rmtree(new.parent / f".{new.name}.parts", ignore_errors=True)
                return

    def _credentials(self, s3: Mapping[str, Any]) -> Credentials:
        """Return the dataset's credentials; if it names none, those of the plane's own store."""
        from mizzen.blobs.object_store_credentials import Credentials
        from mizzen.blobs.open_from_env import credentials_of

        own = credentials_of(self.environ)
        if s3.get("secret"):
            keys = self.environ.get(ACCESS_KEY_ID, ""), self.environ.get(SECRET_ACCESS_KEY, "")
        elif s3.get("endpoint"):  # another store: the plane's keys are not for it
            keys = "", ""
        else:
            keys = own.access_key_id, own.secret_access_key
        return Credentials(s3.get("endpoint") or own.endpoint, s3.get("region") or own.region, *keys)

    def _report_bytes(self, done: int, total: int | None) -> None:
        of = f" of {total / 1e6:,.0f}" if total else ""
        self.report(f"fetching the dataset: {done / 1e6:,.0f}{of} MB")


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


def _file_name(url: str) -> str:
    from mizzen.blobs.ingest.intake import path_fault

    name = PurePosixPath(unquote(urlsplit(url).path)).name
    return name if name and not name.startswith(".") and path_fault(name) is None else "data"
