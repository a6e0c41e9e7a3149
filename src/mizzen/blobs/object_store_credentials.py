"""Credentials of an object store, and its whole configuration as options for obstore.

obstore also reads the environment of its process, whose variables may belong to other code. Explicit options take
precedence, so every option that such a variable could set is passed explicitly.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Final

PATIENCE: Mapping[str, Any] = {
    "client_options": {"connect_timeout": timedelta(seconds=5), "timeout": timedelta(seconds=60)},
    "retry_config": {
        "max_retries": 4,
        "retry_timeout": timedelta(seconds=20),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
    },
}
"""An unreachable store is reported within a minute at most; one that refuses, within seconds."""

PREFIXES: Final = ("AWS_", "GOOGLE_", "AZURE_")
"""Prefixes of environment variables that configure object stores."""

_S3_IDENTITY: Final = frozenset({
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN", "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ENDPOINT_URL_STS",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_IMDSV1_FALLBACK", "AWS_METADATA_ENDPOINT",
})  # fmt: skip
_S3_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""In order of precedence."""
_S3_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_S3_DEFAULTS: Final = {
    "AWS_CONDITIONAL_PUT": "etag", "AWS_DISABLE_BULK_DELETE": "false", "AWS_DISABLE_TAGGING": "false",
    "AWS_REQUEST_PAYER": "false", "AWS_S3_EXPRESS": "false", "AWS_SKIP_SIGNATURE": "false",
    "AWS_SSE_BUCKET_KEY_ENABLED": "false", "AWS_UNSIGNED_PAYLOAD": "false",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
}  # fmt: skip
_S3_WITHOUT_DEFAULT: Final = frozenset({
    "AWS_CHECKSUM_ALGORITHM", "AWS_COPY_IF_NOT_EXISTS", "AWS_SERVER_SIDE_ENCRYPTION", "AWS_SSE_CUSTOMER_KEY_BASE64",
    "AWS_SSE_KMS_KEY_ID",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Credentials:
    """Empty fields come from the environment: `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` and so on."""

    endpoint: str = ""
    region: str = ""
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Credentials:
        return cls(
            _first(environ, *_S3_ENDPOINTS), _first(environ, *_S3_REGIONS),
            environ.get("AWS_ACCESS_KEY_ID", ""), environ.get("AWS_SECRET_ACCESS_KEY", ""),
        )  # fmt: skip

    def with_defaults(self, other: Credentials) -> Credentials:
        """Returns these credentials, with empty fields from the others."""
        return Credentials(**{name: value or getattr(other, name) for name, value in asdict(self).items()})


def s3_options(credentials: Credentials, environ: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of an `S3Store` from complete credentials, variables, and further configuration.

    Raises ValueError if another variable of this process would take effect as well.
    """
    foreign = os.environ.keys() - environ.keys()
    explicit = {"aws_region": credentials.region or "us-east-1", **config}
    if credentials.endpoint:
        explicit["aws_endpoint_url_s3"] = credentials.endpoint
    elif not foreign.isdisjoint(_S3_ENDPOINTS):
        explicit["aws_endpoint_url_s3"] = f"https://s3.{explicit['aws_region']}.amazonaws.com"
    for name, default in _S3_DEFAULTS.items():
        if name in environ or name in foreign:
            explicit.setdefault(name.lower(), environ.get(name, default))
    passed_on = _S3_WITHOUT_DEFAULT
    options: dict[str, Any] = {"config": explicit}
    if credentials.access_key_id and credentials.secret_access_key:
        keys = {"access_key_id": credentials.access_key_id, "secret_access_key": credentials.secret_access_key}
        token = _first(environ, "AWS_SESSION_TOKEN", "AWS_TOKEN") or None
        # Not in `config`: there, a session token of the process would be added to the keys.
        options["credential_provider"] = lambda: {**keys, "token": token, "expires_at": None}
    elif "aws_skip_signature" not in config:
        passed_on |= _S3_IDENTITY
        keys = {"aws_access_key_id": credentials.access_key_id, "aws_secret_access_key": credentials.secret_access_key}
        explicit |= {name: value for name, value in keys.items() if value}
    refuse_variables(foreign & passed_on)
    for name in passed_on & environ.keys():
        explicit.setdefault(name.lower(), environ[name])
    return options


def refuse_variables(names: Iterable[str]) -> None:
    """Raises ValueError if there are any: obstore would use these variables of the process."""
    if listed := ", ".join(sorted(names)):
        raise ValueError(f"environment variables would also configure the object store: unset {listed}")


def _first(environ: Mapping[str, str], *names: str) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")
