"""All settings of a plane: one frozen object, read once from file, environment and flags, and passed down.

Standard library only: gateways and the CLI read it and must start fast.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import combinations
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from mizzen.errors import Fault, Invalid

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ORIGIN = re.compile(r"https?://([a-z0-9]([-.a-z0-9]*[a-z0-9])?|\[[0-9a-f:]+\])(:[0-9]{1,5})?", re.IGNORECASE)
PORTS = ("port", "inference_port", "grpc_port", "tls_port")

WORDS: dict[type[Any], str] = {
    int: "a whole number", float: "a number", str: "a text", bool: "true or false", tuple: "a list of texts",
}  # fmt: skip


def _setting(default: Any, help_: str) -> Any:
    return field(default=default, metadata={"help": help_})


@dataclass(frozen=True, slots=True)
class Settings:
    """Each field is read from a flag, else from MIZZEN_<FIELD>, else from <field> in <data_dir>/settings.toml."""

    data_dir: str = _setting(".mizzen", "Folder that holds everything the plane keeps.")
    host: str = _setting(
        "127.0.0.1",
        "Address of the APIs. Any but loopback needs `inference_tls`, and then the control API is there with TLS only; "
        "or `insecure`.",
    )
    insecure: bool = _setting(
        False,
        "Allow another host than loopback without TLS, though tokens then travel unencrypted. Nobody gets in without "
        "one.",
    )
    inference_tls: bool = _setting(
        False, "The inference API speaks TLS, and nothing else: under the plane's own CA, or with `tls_certificate`."
    )
    tls_certificate: str = _setting(
        "",
        "Certificates (PEM, the server's first) that the inference API shows in place of one of the plane's own CA; "
        "relative to the data dir. New ones in the file are taken within seconds.",
    )
    tls_key: str = _setting("", "The key (PEM, without a password) of `tls_certificate`.")
    tls_names: tuple[str, ...] = _setting(
        (),
        "More names and addresses of this machine, for the certificates of its own CA. The first is the one that "
        "others are told to ask.",
    )
    anonymous: bool = _setting(
        True, "On loopback, let those without a token read and predict; not see logs, rights, secrets or the audit."
    )
    cors_origins: tuple[str, ...] = _setting(
        (),
        "Origins of web pages that may call the inference API from a browser, such as https://app.example; * for all. "
        "They send a token of their own: cookies are never asked for.",
    )
    port: int = _setting(8470, "Port of the control API; 0 picks a free one and keeps it.")
    inference_port: int = _setting(8471, "Port of the inference API; 0 picks a free one and keeps it.")
    grpc_port: int = _setting(8472, "Port of the inference API over gRPC; 0 picks a free one and keeps it.")
    tls_port: int = _setting(
        8473, "Port of the control API with TLS, under a CA of its own; 0 picks a free one and keeps it."
    )
    gateways: int = _setting(1, "Number of gateway processes.")
    gpus: int = _setting(-1, "GPUs of this machine that are shared out; -1: as many as its driver names.")
    start_timeout: float = _setting(60.0, "Seconds until a start that is not ready counts as failed.")
    stop_timeout: float = _setting(1.0, "Seconds that requests in flight get to finish when stopping.")
    queue_limit: int = _setting(16384, "Requests that may wait for one served version in one gateway; beyond it: 503.")
    queue_bytes: int = _setting(
        256 << 20, "Bytes of requests that may wait likewise, or be on their way in to one gateway; beyond it: 503."
    )
    hold_seconds: float = _setting(30.0, "How long requests wait for a lost replica to come back before they get 503.")
    held_limit: int = _setting(
        1024, "Requests that may wait in one gateway for a served version that was scaled to zero; beyond it: 503."
    )
    held_bytes: int = _setting(64 << 20, "Bytes of requests that may wait likewise; beyond it: 503.")
    max_body_bytes: int = _setting(64 << 20, "Largest request body of the inference API.")
    default_framework: str = _setting(
        "", "Framework of models and versions that name none and whose files do not tell; empty: they must."
    )
    log_level: str = _setting("info", "debug, info, warning or error.")
    log_bytes: int = _setting(32 << 20, "Size at which a log is put aside as <log>.1, and begun anew; each log.")
    log_files: int = _setting(1, "Logs that are kept put aside, of each process.")
    log_days: float = _setting(30.0, "Days after which a log goes that nobody writes to any more; 0: never.")
    access_log: str = _setting(
        "errors", "Requests of the inference API that are logged: off, errors (5xx only) or all; 'mizzen logs access'."
    )
    otel_endpoint: str = _setting(
        "",
        "Address of a collector that spans are sent to by OTLP over HTTP, such as http://127.0.0.1:4318; empty: what "
        "OTEL_EXPORTER_OTLP_ENDPOINT says, else they are sent nowhere.",
    )
    otel_sample: float = _setting(
        0.01, "Share of requests that are traced though they bring no traceparent: 0 to 1. Those whose callers trace "
        "them always are.",
    )  # fmt: skip
    oidc_issuer: str = _setting("", "Address of the OpenID Connect issuer whose JWTs are taken; empty: none are.")
    oidc_audience: str = _setting("", "What a JWT must name as its audience. Needed with oidc_issuer.")
    oidc_keys: str = _setting(
        "", "The issuer's public keys: a JWKS file (relative to the data dir) or address; empty: the issuer is asked."
    )
    oidc_user_claim: str = _setting("sub", "Claim of a JWT that says who it is; they are then called oidc:<claim>.")
    oidc_groups_claim: str = _setting("groups", "Claim of a JWT that lists groups, named group:<name> in RoleBindings.")
    oidc_admin_group: str = _setting("", "Group whose members are admins of the plane; empty: none is.")
    max_upload_bytes: int = _setting(16 << 30, "Largest file or archive that is taken for a version.")
    max_unpacked_bytes: int = _setting(32 << 30, "Most bytes that the files of one version may have together.")
    blob_store: str = _setting(
        "", "Address of a store that keeps files, too, such as s3://bucket/blobs; empty: the data dir alone has them."
    )
    blob_store_endpoint: str = _setting(
        "", "Where that store answers, such as http://127.0.0.1:9000; empty: as AWS_ENDPOINT_URL says, or by name."
    )
    blob_store_region: str = _setting("", "Its region; empty: as AWS_REGION says.")
    blob_store_secret: str = _setting(
        "",
        "Secret of namespace default with the keys accessKeyId and secretAccessKey that open it; empty: as "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say.",
    )
    training_cpus: float = _setting(0.0, "Cores that training jobs may ask for together; 0: all there are.")
    training_memory_bytes: int = _setting(0, "Bytes of memory that they may ask for together; 0: all there are.")
    keep_events: int = _setting(
        10_000, "Changes that are kept for those who watch: whoever is further behind gets 410, and lists again."
    )
    untaken_seconds: float = _setting(
        60.0, "Seconds after which a connection of the control API is closed whose reader takes nothing."
    )
    garbage_hours: float = _setting(
        24.0, "Hours that files without a version, and uploads nobody goes on with, are kept."
    )
    environment_tool: str = _setting(
        "auto", "What installs the packages that versions require: uv, pip, or auto: uv where there is one."
    )
    environment_wheels: str = _setting(
        "", "Folder of wheels (relative to the data dir) that those packages are taken from alone; empty: an index."
    )
    environment_minutes: float = _setting(30.0, "Minutes that building one environment may take.")
    environment_hours: float = _setting(168.0, "Hours that an environment is kept which nothing served needs any more.")
    disk_low_bytes: int = _setting(
        512 << 20, "Bytes of the disk that files of versions leave free: below it none are taken (507). 0: no limit."
    )
    disk_critical_bytes: int = _setting(
        64 << 20, "Bytes of the disk below which nothing but deletions is written to the store (507). 0: no limit."
    )
    audit_predictions: float = _setting(
        0.0,
        "Share of predictions, 0 to 1, that leave an entry in the audit: who, what, and size and digest of both sides.",
    )
    audit_days: int = _setting(0, "Days that the audit keeps what was allowed; 0: for ever.")
    audit_refusal_rows: int = _setting(1_000_000, "Refusals that the audit keeps; beyond it the oldest are dropped.")

    @property
    def root(self) -> Path:
        return Path(self.data_dir)

    @property
    def loopback(self) -> bool:
        """Are the APIs reachable from this machine only?"""
        return self.host in LOOPBACK

    @property
    def plain_host(self) -> str:
        """Where the control API answers without TLS: nowhere that others can reach, unless that is meant."""
        return self.host if self.loopback or self.insecure else LOOPBACK[0]

    @property
    def given_certificate(self) -> tuple[Path, Path] | None:
        """Files of certificates and key that somebody else made."""
        return (self.root / self.tls_certificate, self.root / self.tls_key) if self.tls_certificate else None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What another release wrote, too: settings that this one does not have are none of its business."""
        known = cls.__dataclass_fields__
        values: dict[str, Any] = {name: value for name, value in json.loads(text).items() if name in known}
        values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(**values)

    @classmethod
    def load(cls, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ) -> Self:
        """Flags that are not None, over environment, over settings.toml, over defaults. Raises Invalid."""
        given = {name: value for name, value in (flags or {}).items() if value is not None}
        data_dir = str(
            given.get("data_dir") or environ.get("MIZZEN_DATA_DIR") or cls.__dataclass_fields__["data_dir"].default
        )
        file = Path(data_dir) / "settings.toml"
        try:
            from_file = tomllib.loads(file.read_text()) if file.is_file() else {}
        except ValueError as error:
            raise Invalid(
                f"{file} is no TOML: {error}", hint="one line for each setting, such as: port = 8470"
            ) from error
        faults: list[Fault] = [
            Fault(str(file), f"unknown setting '{name}'{_meant(name, cls.__dataclass_fields__)}")
            for name in from_file
            if name not in cls.__dataclass_fields__
        ]
        values: dict[str, Any] = {}
        for setting in fields(cls):
            kind: type[Any] = type(setting.default)
            variable = f"MIZZEN_{setting.name.upper()}"
            for source, value in (
                (f"--{setting.name.replace('_', '-')}", given.get(setting.name)),
                (variable, environ.get(variable)),
                (str(file), from_file.get(setting.name)),
            ):
                if value is None:
                    continue
                try:
                    values[setting.name] = _read(kind, value)
                except ValueError:
                    faults.append(Fault(source, f"{setting.name} must be {WORDS[kind]}, not {value!r}"))
                break
        # Absolute from here on: the processes of a plane run in other folders than who started it.
        settings = cls(**values | {"data_dir": str(Path(data_dir).resolve())})
        faults += settings._faults()
        if faults:
            raise Invalid.of("settings", tuple(faults))
        return settings

    def _faults(self) -> list[Fault]:
        faults = [
            Fault(name, f"{getattr(self, name)} is no port: 0 to 65535")
            for name in PORTS
            if not 0 <= getattr(self, name) <= 65535
        ]
        faults += [
            Fault(second, f"is the same as {first}, {getattr(self, first)}; each API needs its own")
            for first, second in combinations(PORTS, 2)
            if getattr(self, first) and getattr(self, first) == getattr(self, second)
        ]
        if not self.loopback and not self.insecure and not self.inference_tls:
            faults.append(
                Fault("host", f"{self.host!r} is not loopback: whoever listens on the way sees the tokens; "
                      "encrypt with inference_tls = true (--inference-tls), or set insecure = true (--insecure) "
                      "if it is meant so")
            )  # fmt: skip
        faults += self._certificate_faults()
        faults += [
            Fault("cors_origins", f"{origin!r} is no origin: write scheme, host and port only, as https://app.example")
            for origin in self.cors_origins
            if origin != "*" and not _ORIGIN.fullmatch(origin)
        ]
        if self.oidc_issuer and not self.oidc_audience:
            faults.append(
                Fault("oidc_audience", "required with oidc_issuer: tokens for others must not open this plane")
            )
        for name in ("oidc_issuer", "oidc_keys"):
            address = getattr(self, name)
            if ("://" in address or (address and name == "oidc_issuer")) and not _trustworthy(address):
                faults.append(Fault(name, f"{address!r} must be an https address (http only on this machine)"))
        if self.otel_endpoint and (
            urlsplit(self.otel_endpoint).scheme not in ("http", "https") or not urlsplit(self.otel_endpoint).hostname
        ):
            faults.append(
                Fault("otel_endpoint", f"{self.otel_endpoint!r} is no address, such as http://127.0.0.1:4318")
            )
        if not 0 <= self.otel_sample <= 1:
            faults.append(Fault("otel_sample", "must be 0 to 1"))
        faults += [
            Fault(name, f"must be {least} to 64{more}")
            for name, least, more in (("gateways", 1, ""), ("gpus", -1, "; -1 is as many as there are"))
            if not least <= getattr(self, name) <= 64
        ]
        if self.log_level not in ("debug", "info", "warning", "error"):
            faults.append(Fault("log_level", f"{self.log_level!r} is none of debug, info, warning, error"))
        if self.access_log not in ("off", "errors", "all"):
            faults.append(Fault("access_log", f"{self.access_log!r} is none of off, errors, all"))
        if self.environment_tool not in ("auto", "uv", "pip"):
            faults.append(Fault("environment_tool", f"{self.environment_tool!r} is none of auto, uv, pip"))
        above_0 = (
            "start_timeout", "stop_timeout", "queue_limit", "queue_bytes", "hold_seconds", "held_limit", "held_bytes",
            "max_body_bytes",
            "max_upload_bytes", "max_unpacked_bytes", "keep_events", "untaken_seconds",
            "garbage_hours", "environment_minutes", "environment_hours", "audit_refusal_rows", "log_bytes",
        )  # fmt: skip
        faults += [Fault(name, "must be above 0") for name in above_0 if getattr(self, name) <= 0]
        return [*faults, *self._faults_of_keeping()]

    def _faults_of_keeping(self) -> Iterator[Fault]:
        """How much is kept, and how much room that leaves."""
        for name in ("disk_low_bytes", "disk_critical_bytes"):
            if getattr(self, name) < 0:
                yield Fault(name, "must be 0 or more")
        if 0 < self.disk_low_bytes < self.disk_critical_bytes:
            yield Fault("disk_low_bytes", f"must not be below disk_critical_bytes, {self.disk_critical_bytes}")
        if not 1 <= self.log_files <= 100:
            yield Fault("log_files", "must be 1 to 100")
        if self.log_days < 0:
            yield Fault("log_days", "must be 0 or more")
        if not 0 <= self.audit_predictions <= 1:
            yield Fault("audit_predictions", "must be 0 to 1")
        if not 0 <= self.audit_days <= 36_500:
            yield Fault("audit_days", "must be 0 to 36500")

    def _certificate_faults(self) -> list[Fault]:
        """Of files that somebody else made: told before anything is started."""
        if bool(self.tls_certificate) != bool(self.tls_key):
            missing = "tls_key" if self.tls_certificate else "tls_certificate"
            return [Fault(missing, "required: tls_certificate and tls_key go together")]
        if self.tls_certificate and not self.inference_tls:
            return [Fault("tls_certificate", "is shown by nobody without inference_tls = true (--inference-tls)")]
        given = self.given_certificate
        if given is None:
            return []
        from mizzen.web import tls

        try:
            tls.check_shown(tls.context(*given))
        except (OSError, ValueError) as error:
            return [Fault("tls_certificate", f"{given[0]} and {given[1]} are no use: {error}")]
        return []


def _read(kind: type[Any], value: Any) -> Any:
    """ValueError when it is of another type. Flags and the file give values, the environment gives texts."""
    if kind is bool:
        known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if isinstance(value, bool):
            return value
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


def _meant(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
