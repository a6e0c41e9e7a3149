"""All settings of a plane: one frozen object, read once from the file, the environment and flags, and passed down.

Imports little, since gateways and the CLI read it and must start fast.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from mizzen.errors import Fault, Invalid

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ORIGIN = re.compile(r"https?://([a-z0-9]([-.a-z0-9]*[a-z0-9])?|\[[0-9a-f:]+\])(:[0-9]{1,5})?", re.IGNORECASE)
PORTS = ("port", "inference_port", "grpc_port", "tls_port")

TYPE_NAMES: dict[type[Any], str] = {
    int: "a whole number", float: "a number", str: "a text", bool: "true or false", tuple: "a list of texts",
}  # fmt: skip
_RANGES: dict[str, tuple[float, float]] = {
    "otel_sample": (0, 1), "gateways": (1, 64), "gpus": (-1, 64), "disk_low_bytes": (0, math.inf),
    "disk_critical_bytes": (0, math.inf), "log_files": (1, 100), "log_days": (0, math.inf), "audit_predictions": (0, 1),
    "model_pids": (0, math.inf), "audit_days": (0, 36_500),
}  # fmt: skip
_CHOICES = {
    "log_level": ("debug", "info", "warning", "error"),
    "access_log": ("off", "errors", "all"),
    "environment_tool": ("auto", "uv", "pip"),
    "confine_models": ("auto", "required", "off"),
}
_ABOVE_0 = (
    "start_timeout", "stop_timeout", "queue_limit", "queue_bytes", "hold_seconds", "held_limit", "held_bytes",
    "max_body_bytes", "max_upload_bytes", "max_unpacked_bytes", "keep_events", "untaken_seconds", "garbage_hours",
    "environment_minutes", "environment_hours", "audit_refusal_rows", "log_bytes",
    "api_reads_per_actor", "api_writes_per_actor", "api_queued_per_actor", "api_streams_per_actor",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """Each field is read from a flag, else from MIZZEN_<FIELD>, else from <field> in <data_dir>/settings.toml."""

    data_dir: str = ".mizzen"
    """The folder for all data of the plane."""
    host: str = "127.0.0.1"
    """The address that the APIs listen on. Any address but loopback needs `inference_tls` or `insecure`. With
    `inference_tls`, the control API listens on that address with TLS only."""
    insecure: bool = False
    """Allow a host other than loopback without TLS. Tokens are then sent unencrypted. Callers always need a token."""
    inference_tls: bool = False
    """Serve the inference API with TLS only, with a certificate of the plane's own CA or with `tls_certificate`."""
    tls_certificate: str = ""
    """The certificate chain (PEM, the server's certificate first) of the inference API; empty: a certificate of the
    plane's own CA. The path is relative to the data dir. A changed file is reloaded within seconds."""
    tls_key: str = ""
    """The private key (PEM, without a password) of `tls_certificate`."""
    tls_names: tuple[str, ...] = ()
    """Additional names and addresses of this machine, for certificates of the plane's own CA. URLs for other machines
    use the first one."""
    anonymous: bool = True
    """On loopback, allow callers without a token to read and predict, but not to see logs, rights, secrets or the audit
    log."""
    cors_origins: tuple[str, ...] = ()
    """Origins of web pages that may call the inference API from a browser, such as https://app.example; * for all. They
    must send a token: cookies are never used."""
    port: int = 8470
    """The port of the control API; 0 picks a free port and keeps it."""
    inference_port: int = 8471
    """The port of the inference API; 0 picks a free port and keeps it."""
    grpc_port: int = 8472
    """The port of the inference API over gRPC; 0 picks a free port and keeps it."""
    tls_port: int = 8473
    """The port of the control API with TLS, with a certificate of the plane's own CA; 0 picks a free port and keeps
    it."""
    gateways: int = 1
    """The number of gateway processes."""
    gpus: int = -1
    """The number of GPUs of this machine to use; -1 uses all that the driver reports."""
    start_timeout: float = 60.0
    """Seconds within which a starting plane must be ready; otherwise the start fails."""
    stop_timeout: float = 1.0
    """Seconds to wait for requests in flight when the plane stops."""
    queue_limit: int = 16384
    """The most requests that may wait for one served version in one gateway; further requests get 503."""
    queue_bytes: int = 256 << 20
    """The most bytes of requests for one served version that one gateway may hold, waiting or in transfer; further
    requests get 503."""
    hold_seconds: float = 30.0
    """Seconds that requests wait for a lost replica to come back before they get 503."""
    held_limit: int = 1024
    """The most requests that may wait in one gateway for a version that was scaled to zero; further requests get
    503."""
    held_bytes: int = 64 << 20
    """The most bytes of requests that may wait for a version that was scaled to zero; further requests get 503."""
    max_body_bytes: int = 64 << 20
    """The largest request body of the inference API, in bytes."""
    confine_models: str = "auto"
    """How models, jobs and packages are kept from the plane's files: auto uses what the machine offers, required
    refuses to start without protection of files, off gives them all rights of the plane's user."""
    run_models_as: str = ""
    """The user that models, jobs and builds of environments run as; empty: the plane's. Only for a plane of root."""
    model_pids: int = 1024
    """How many processes and threads each replica of a model, and each replica of a job, may have; 0: no limit."""
    model_read_paths: tuple[str, ...] = ()
    """More folders (absolute) that models and jobs may read, such as a share with datasets."""
    model_write_paths: tuple[str, ...] = ()
    """More folders (absolute) that models and jobs may read and write."""
    default_framework: str = ""
    """The framework of a version if neither it nor its model declares one and its files do not show it; empty: it must
    be declared."""
    log_level: str = "info"
    """The log level: debug, info, warning or error."""
    log_bytes: int = 32 << 20
    """The size in bytes at which each log is rotated to <log>.1. The log of a job's attempt keeps so much in all."""
    log_files: int = 1
    """The number of rotated logs to keep for each process."""
    log_days: float = 30.0
    """Days after which a log that is no longer written to is deleted; 0: never."""
    access_log: str = "errors"
    """Which requests of the inference API to log: off, errors (5xx only) or all. 'mizzen logs access' shows them."""
    otel_endpoint: str = ""
    """The address of a collector to send spans to by OTLP over HTTP, such as http://127.0.0.1:4318; empty: the value of
    OTEL_EXPORTER_OTLP_ENDPOINT. Without either, spans are not sent."""
    otel_sample: float = 0.01
    """The share of requests without a traceparent to trace, from 0 to 1. Requests that their callers trace are always
    traced."""
    oidc_issuer: str = ""
    """The address of the OpenID Connect issuer whose JWTs are accepted; empty: none."""
    oidc_audience: str = ""
    """The audience that a JWT must have. Required with oidc_issuer."""
    oidc_keys: str = ""
    """The issuer's public keys: a JWKS file (relative to the data dir) or address; empty: fetched from the issuer."""
    oidc_user_claim: str = "sub"
    """The JWT claim that holds the user's name; Mizzen puts oidc: before that name."""
    oidc_groups_claim: str = "groups"
    """The JWT claim that lists the user's groups. RoleBindings name a group as group:<name>."""
    oidc_admin_group: str = ""
    """The group whose members are admins of the plane; empty: none."""
    max_upload_bytes: int = 16 << 30
    """The largest file or archive of a version, in bytes."""
    max_unpacked_bytes: int = 32 << 30
    """The most bytes of all files of one version together."""
    blob_store: str = ""
    """The address of an additional blob store, such as s3://bucket/blobs; empty: files are in the data dir only."""
    blob_store_endpoint: str = ""
    """The endpoint of the blob store, such as http://127.0.0.1:9000; empty: AWS_ENDPOINT_URL, else by its name."""
    blob_store_region: str = ""
    """The region of the blob store; empty: AWS_REGION."""
    blob_store_secret: str = ""
    """The secret in the namespace default with the keys accessKeyId and secretAccessKey of the blob store; empty:
    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."""
    training_cpus: float = 0.0
    """The CPU cores for all training jobs together; 0: all."""
    training_memory_bytes: int = 0
    """The bytes of memory for all training jobs together; 0: all."""
    keep_events: int = 10_000
    """The number of changes to keep for watches. A watch that is further behind gets 410 and must list again."""
    api_reads_per_actor: int = 2
    """Reads of the control API that execute at a time for one user; further ones wait for their turn."""
    api_writes_per_actor: int = 4
    """Writes of the control API that execute at a time for one user; further ones wait for their turn."""
    api_queued_per_actor: int = 256
    """The most reads, and the most writes, of one user that may wait for their turn; further ones get 429."""
    api_streams_per_actor: int = 256
    """The most watches, followed logs and slow transfers of one user; further ones get 429."""
    untaken_seconds: float = 60.0
    """Seconds after which the control API closes a connection whose client reads nothing."""
    garbage_hours: float = 24.0
    """Hours to keep files without a version, and abandoned uploads."""
    environment_tool: str = "auto"
    """The installer of the packages that versions require: uv, pip, or auto, which prefers uv."""
    environment_wheels: str = ""
    """A folder of wheels (relative to the data dir) as the only source of required packages; empty: a package index."""
    environment_minutes: float = 30.0
    """Minutes that a build of one environment may take."""
    environment_hours: float = 168.0
    """Hours to keep an environment that no served version needs."""
    disk_low_bytes: int = 512 << 20
    """Free disk space in bytes below which uploads are rejected with 507. 0: no limit."""
    disk_critical_bytes: int = 64 << 20
    """Free disk space in bytes below which all writes but deletions are rejected with 507. 0: no limit."""
    audit_predictions: float = 0.0
    """The share of predictions to record in the audit log, from 0 to 1. An entry has the caller, the model, and the
    sizes and digests of request and response."""
    audit_days: int = 0
    """Days to keep allowed requests in the audit log; 0: forever."""
    audit_refusal_rows: int = 1_000_000
    """The number of denied requests to keep in the audit log; the oldest are dropped."""

    @property
    def root(self) -> Path:
        return Path(self.data_dir)

    @property
    def loopback(self) -> bool:
        """Whether the APIs are reachable from this machine only."""
        return self.host in LOOPBACK

    @property
    def plain_host(self) -> str:
        """The address of the control API without TLS: loopback, unless `insecure` allows another."""
        return self.host if self.loopback or self.insecure else LOOPBACK[0]

    @property
    def user_certificate(self) -> tuple[Path, Path] | None:
        """The paths of the user's certificates and key, if set."""
        return (self.root / self.tls_certificate, self.root / self.tls_key) if self.tls_certificate else None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Accepts what another release wrote: unknown settings are ignored."""
        known = cls.__dataclass_fields__
        values: dict[str, Any] = {name: value for name, value in json.loads(text).items() if name in known}
        values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(**values)

    @classmethod
    def load(cls, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ) -> Self:
        """Flags that are not None take precedence over the environment, settings.toml and defaults. Raises Invalid."""
        known, flags = cls.__dataclass_fields__, flags or {}
        data_dir = str(flags.get("data_dir") or environ.get("MIZZEN_DATA_DIR") or known["data_dir"].default)
        file = Path(data_dir) / "settings.toml"
        try:
            from_file = tomllib.loads(file.read_text()) if file.is_file() else {}
        except ValueError as error:
            raise Invalid(
                f"{file} is not valid TOML: {error}", hint="write one setting per line, such as: port = 8470"
            ) from error
        faults: list[Fault] = [
            Fault(str(file), f"unknown setting '{name}'{_suggestion(name, known)}")
            for name in from_file
            if name not in known
        ]
        values: dict[str, Any] = {}
        for setting in fields(cls):
            kind: type[Any] = type(setting.default)
            variable = f"MIZZEN_{setting.name.upper()}"
            for source, value in (
                (f"--{setting.name.replace('_', '-')}", flags.get(setting.name)),
                (variable, environ.get(variable)),
                (str(file), from_file.get(setting.name)),
            ):
                if value is None:
                    continue
                try:
                    values[setting.name] = _read(kind, value)
                except ValueError:
                    faults.append(Fault(source, f"{setting.name} must be {TYPE_NAMES[kind]}, not {value!r}"))
                break
        # Absolute from here on: the processes of a plane do not run in the folder where it was started.
        settings = cls(**values | {"data_dir": str(Path(data_dir).resolve())})
        faults += settings._faults()
        if faults:
            raise Invalid.of("settings", tuple(faults))
        return settings

    def _faults(self) -> Iterator[Fault]:
        yield from self._port_faults()
        if not self.loopback and not self.insecure and not self.inference_tls:
            yield Fault(
                "host", f"{self.host!r} is not loopback, so tokens could be intercepted; "
                "encrypt with inference_tls = true (--inference-tls), or set insecure = true (--insecure) to allow it"
            )  # fmt: skip
        yield from self._certificate_faults()
        yield from self._address_faults()
        for name, (least, most) in _RANGES.items():
            if not least <= getattr(self, name) <= most:
                expected = f"{least} or more" if most == math.inf else f"{least} to {most}"
                yield Fault(name, f"must be {expected}{'; -1 means all' if name == 'gpus' else ''}")
        for name, words in _CHOICES.items():
            if getattr(self, name) not in words:
                expected = f"{', '.join(words[:-1])} or {words[-1]}"
                yield Fault(name, f"{getattr(self, name)!r} is not valid; expected {expected}")
        yield from (Fault(name, "must be above 0") for name in _ABOVE_0 if getattr(self, name) <= 0)
        if 0 < self.disk_low_bytes < self.disk_critical_bytes:
            yield Fault("disk_low_bytes", f"must not be below disk_critical_bytes, {self.disk_critical_bytes}")

    def _port_faults(self) -> Iterator[Fault]:
        for name in PORTS:
            if not 0 <= getattr(self, name) <= 65535:
                yield Fault(name, f"{getattr(self, name)} is not a port; expected 0 to 65535")
        for first, second in combinations(PORTS, 2):
            if getattr(self, first) and getattr(self, first) == getattr(self, second):
                yield Fault(second, f"is the same as {first}, {getattr(self, first)}; each API needs its own")

    def _address_faults(self) -> Iterator[Fault]:
        for origin in self.cors_origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                fault = f"{origin!r} is not an origin: write scheme, host and port only, such as https://app.example"
                yield Fault("cors_origins", fault)
        if self.oidc_issuer and not self.oidc_audience:
            yield Fault("oidc_audience", "required with oidc_issuer: this plane must reject tokens for other services")
        for name in ("oidc_issuer", "oidc_keys"):
            address = getattr(self, name)
            if ("://" in address or (address and name == "oidc_issuer")) and not _trustworthy(address):
                yield Fault(name, f"{address!r} must be an https address (http only on this machine)")
        endpoint = urlsplit(self.otel_endpoint)
        if self.otel_endpoint and (endpoint.scheme not in ("http", "https") or not endpoint.hostname):
            fault = f"{self.otel_endpoint!r} is not an address; expected one such as http://127.0.0.1:4318"
            yield Fault("otel_endpoint", fault)

    def _certificate_faults(self) -> Iterator[Fault]:
        """Faults of the user's certificate files, reported before anything starts."""
        if bool(self.tls_certificate) != bool(self.tls_key):
            missing = "tls_key" if self.tls_certificate else "tls_certificate"
            yield Fault(missing, "required: tls_certificate and tls_key must be set together")
        elif self.tls_certificate and not self.inference_tls:
            yield Fault("tls_certificate", "has no effect without inference_tls = true (--inference-tls)")
        elif self.user_certificate is not None:
            from mizzen.web import tls

            chain, key = self.user_certificate
            try:
                tls.check_certificate(tls.build_context(chain, key))
            except (OSError, ValueError) as error:
                yield Fault("tls_certificate", f"{chain} and {key} cannot be used: {error}")


def _read(kind: type[Any], value: Any) -> Any:
    """Raises ValueError for another type. Flags and the file provide typed values, the environment texts."""
    if kind is bool:
        known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if str(value).lower() not in known:
            raise ValueError(value)
        return known[str(value).lower()]
    if isinstance(value, bool):
        raise ValueError(value)  # noqa: TRY004 - as the conversions below
    if kind is tuple:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
            raise ValueError(value)
        return tuple(stripped for word in words if (stripped := word.strip()))
    return kind(value)


def _trustworthy(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK))


def _suggestion(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
