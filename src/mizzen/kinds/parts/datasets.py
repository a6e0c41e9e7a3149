"""Datasets of training jobs. They are downloaded and verified before the command starts."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.parts import one_of
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.text.names import BucketName, Name
from mizzen.kinds.text.urls import Sha256sum, WebUrl


class S3Dataset(Part):
    bucket: BucketName = Field(description="The name of the bucket.")
    prefix: str = Field("", description="Download only objects with this prefix. Empty: the whole bucket.")
    endpoint: WebUrl | None = Field(None, description="The URL of the object store. Default: that of the settings.")
    region: str | None = Field(None, description="The region of the bucket.")
    secret: Name | None = Field(
        None, description="A secret with the keys `accessKeyId` and `secretAccessKey`. Default: as in the settings."
    )


class HttpDataset(Part):
    url: WebUrl = Field(description="The URL of the file.")
    sha256sum: Sha256sum | None = Field(None, alias="sha256sum", description="The sha256 of the file.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.sha256sum is None:
            yield Warn(at, "has no sha256sum, so the download is not verified")


class Dataset(Part):
    """Exactly one of `s3`, `http` and `path`."""

    s3: S3Dataset | None = Field(None, description="A bucket of an S3-compatible object store.")
    http: HttpDataset | None = Field(None, description="A single file, by http or https.")
    path: str | None = Field(None, min_length=1, description="A file or folder on the machine that runs the job.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from one_of.exactly_one(self, ("s3", "http", "path"), at, context)
        if self.path is not None and not self.path.startswith("/"):
            yield Fault(f"{at}.path", f"'{self.path[:100]}' is not an absolute path")
