"""Locating a plane: an explicit address, else MIZZEN_URL, else the data dir of a plane on this machine.

The CLI and the SDK store no state. All they need is the plane's address and token, which are looked up here each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from mizzen import errors
from mizzen.supervisor import launch
from mizzen.supervisor.data_dir import Home, UnusableHome

DEFAULT_DATA_DIR: Final = ".mizzen"
_VARIABLE: Final = "MIZZEN_TOKEN"
_ONE_LINE: Final = "check MIZZEN_TOKEN, or the token you passed: it must be the line that 'mizzen token create' printed"


@dataclass(frozen=True, slots=True)
class PlaneAddress:
    """The address of a plane, and its token."""

    control_url: str
    inference_url: str | None
    """None: only the control API's address is known; the client asks it for this one."""
    token: str | None
    data_dir: Path | None = None
    hint: str = ""
    """A hint for when nothing answers at this address."""
    tls_url: str | None = None
    """The control API's TLS address, as its certificate names it. None: only the plain address is known, or the
    supervisor reports no TLS listener."""
    grpc_address: str | None = None
    """Host and port of the inference API over gRPC. None: it is unknown, or there is none."""
    token_from: str = ""
    """Where the token was found, if the caller did not pass it."""


def find(
    url: str | None = None,
    token: str | None = None,
    *,
    data_dir: str | Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> PlaneAddress:
    """Locate the plane by `url`, `data_dir`, MIZZEN_URL, MIZZEN_DATA_DIR, or in ./.mizzen. Raises Unavailable."""
    found = "" if token else _VARIABLE
    token = clean_token(token or environ.get(_VARIABLE))
    if url is None and data_dir is None:
        url = environ.get("MIZZEN_URL")
    if url is None:
        place = in_data_dir(data_dir_of(data_dir, environ), token)
        return replace(place, token_from=found) if token else place
    if not url.startswith(("http://", "https://")):
        raise errors.BadRequest(
            f"'{url}' is not a valid address of a plane",
            hint="expected http://127.0.0.1:8470, for example, in MIZZEN_URL",
        )
    hint = f"is the plane at {url} running? MIZZEN_URL selects the plane"
    return PlaneAddress(url.rstrip("/"), None, token, hint=hint, token_from=found)


def clean_token(token: str | None) -> str | None:
    """Strip what files and shells add around a token. Raises BadRequest, without the token, if a header cannot carry
    it."""
    token = (token or "").strip()
    if "\n" in token or "\r" in token:
        raise errors.BadRequest("the token contains a line break", hint=_ONE_LINE)
    if not token.isascii() or not token.isprintable():
        raise errors.BadRequest("the token contains an invalid character", hint=_ONE_LINE)
    return token or None


def data_dir_of(given: str | Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    return Path(given or environ.get("MIZZEN_DATA_DIR") or DEFAULT_DATA_DIR)


def in_data_dir(data_dir: Path, token: str | None = None) -> PlaneAddress:
    """Return the plane that runs in this data dir. Raises Unavailable if none does."""
    hint = start_hint(data_dir)
    info = _read_info(data_dir)
    if info is None:
        raise errors.Unavailable(f"no plane runs in {data_dir}", hint=hint)
    token, token_from = clean_token(token), ""
    if token is None:
        file = data_dir / "admin-token"
        token, token_from = _read_token(file), str(file)
    tls_url = _tls_address(info["listeners"].get("control-tls"))
    return PlaneAddress(*urls(info), token, data_dir, hint, tls_url, _grpc_address(info), token_from)


def running(data_dir: Path) -> bool:
    """Return whether a plane runs there and will keep running; waits some seconds while that is uncertain."""
    with _explain_errors():
        return launch.wait_until_settled(Home.of(data_dir)) is not None


def urls(info: Mapping[str, Any]) -> tuple[str, str]:
    """Return the URLs of the control and inference API that a live supervisor reports. Raises Unavailable if it has
    none."""
    try:
        listeners = info["listeners"]
        secured = _tls_address(listeners.get("inference-tls"))
        return _format_url(listeners["control"]), secured or _format_url(listeners["inference"])
    except (KeyError, TypeError) as error:
        raise errors.Unavailable(
            "a supervisor is running, but its record of the plane is damaged",
            hint="run 'mizzen down', then 'mizzen up'",
        ) from error


def authority(data_dir: Path) -> str:
    """Return the CA certificate (PEM) for the plane's TLS address. Raises Unavailable, Forbidden."""
    file = data_dir / "tls" / "ca.pem"
    try:
        return file.read_text()
    except FileNotFoundError as error:
        raise errors.Unavailable(f"{file} is missing", hint="'mizzen down' and 'mizzen up' create it again") from error
    except PermissionError as error:
        raise errors.Forbidden(f"you may not read {file}", hint="ask its owner for a kubeconfig") from error


def start_hint(data_dir: Path) -> str:
    flag = "" if data_dir == Path(DEFAULT_DATA_DIR) else f" --data-dir {data_dir}"
    return f"start one with 'mizzen up{flag}'"


def _read_token(file: Path) -> str | None:
    try:
        return clean_token(file.read_text())
    except FileNotFoundError:
        return None
    except (UnicodeDecodeError, errors.BadRequest) as error:
        raise errors.Unavailable(
            f"{file} does not contain a token", hint=f"remove {file}; the next start creates a new one"
        ) from error
    except PermissionError as error:
        raise errors.Forbidden(
            f"you may not read {file}", hint="ask its owner for a token and set MIZZEN_TOKEN"
        ) from error


def _read_info(data_dir: Path) -> Mapping[str, Any] | None:
    """Return the live supervisor's report; None if there is none.

    If the supervisor was killed, this waits while it is restarted. The report it left behind is not used: another
    process may have its ports by now, and would receive the admin's token.
    """
    with _explain_errors():
        return launch.alive_or_revived(Home.of(data_dir))


@contextmanager
def _explain_errors() -> Iterator[None]:
    try:
        yield
    except UnusableHome as error:
        raise errors.Forbidden(str(error), hint=error.hint) from error


def _tls_address(listener: Mapping[str, Any] | None) -> str | None:
    if listener is None:
        return None
    # Certificates do not name 'all addresses'.
    everywhere = listener["host"] in ("0.0.0.0", "::")  # noqa: S104 - compared, not listened on
    return _format_url({**listener, "host": "localhost"} if everywhere else listener, "https")


def _grpc_address(info: Mapping[str, Any]) -> str | None:
    """Return the address in the form gRPC clients use, without a scheme."""
    listeners = info["listeners"]
    secured = _tls_address(listeners.get("grpc-tls"))
    if secured is None:
        return _format_url(listeners["grpc"]).removeprefix("http://") if "grpc" in listeners else None
    return secured.removeprefix("https://")


def _format_url(listener: Mapping[str, Any], scheme: str = "http") -> str:
    host = str(listener["host"])
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{listener['port']}"
