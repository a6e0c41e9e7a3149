"""Finding a plane: an address given, else MIZZEN_URL, else the data dir of a plane on this machine.

The CLI and the SDK keep nothing of their own: which plane and which token is all they know, and it is found here anew
each time.
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
_ONE_LINE: Final = "look at MIZZEN_TOKEN, or what was given: it must be the one line that 'mizzen token create' printed"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a plane is, and the token that opens it."""

    control_url: str
    inference_url: str | None
    """None: only the control API's address is known; it tells the other."""
    token: str | None
    data_dir: Path | None = None
    hint: str = ""
    """What to do when nothing answers there."""
    tls_url: str | None = None
    """Of the control API with TLS, as the certificate there names it. None: only the control API's address is known,
    or whoever started the plane knew of no TLS."""
    grpc_address: str | None = None
    """Host and port of the inference API over gRPC. None, likewise: it is not known, or there is none."""
    token_from: str = ""
    """Where the token was found, when nobody gave it."""


def find(
    url: str | None = None,
    token: str | None = None,
    *,
    data_dir: str | Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Place:
    """The plane meant: by `url`, by `data_dir`, by MIZZEN_URL, by MIZZEN_DATA_DIR, or in ./.mizzen. Unavailable."""
    found = "" if token else _VARIABLE
    token = cleaned(token or environ.get(_VARIABLE))
    if url is None and data_dir is None:
        url = environ.get("MIZZEN_URL")
    if url is None:
        place = in_data_dir(data_dir_of(data_dir, environ), token)
        return replace(place, token_from=found) if token else place
    if not url.startswith(("http://", "https://")):
        raise errors.BadRequest(
            f"'{url}' is no address of a plane", hint="write it as http://127.0.0.1:8470, say, in MIZZEN_URL"
        )
    hint = f"is the plane at {url} running? MIZZEN_URL says which one to use"
    return Place(url.rstrip("/"), None, token, hint=hint, token_from=found)


def cleaned(token: str | None) -> str | None:
    """Without what files and shells leave around it. BadRequest, which never shows it, when no header can carry it."""
    token = (token or "").strip()
    if "\n" in token or "\r" in token:
        raise errors.BadRequest("the token holds a line break", hint=_ONE_LINE)
    if not token.isascii() or not token.isprintable():
        raise errors.BadRequest("the token holds a character that no token has", hint=_ONE_LINE)
    return token or None


def data_dir_of(given: str | Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    return Path(given or environ.get("MIZZEN_DATA_DIR") or DEFAULT_DATA_DIR)


def in_data_dir(data_dir: Path, token: str | None = None) -> Place:
    """The plane that runs in this data dir. Unavailable when none does."""
    hint = start_hint(data_dir)
    info = _info(data_dir)
    if info is None:
        raise errors.Unavailable(f"no plane runs in {data_dir}", hint=hint)
    control_url, inference_url = urls(info)
    token = cleaned(token)
    if token is not None:
        return Place(control_url, inference_url, token, data_dir, hint, _tls_url(info), _grpc_address(info))
    file = data_dir / "admin-token"
    found = cleaned(_token(file))
    return Place(
        control_url, inference_url, found, data_dir, hint, _tls_url(info), _grpc_address(info), token_from=str(file)
    )


def running(data_dir: Path) -> bool:
    """Whether a plane runs there and will go on; waits some seconds while that is unsure."""
    with _explained():
        return launch.settled(Home.of(data_dir)) is not None


def urls(info: Mapping[str, Any]) -> tuple[str, str]:
    """Of the control and the inference API, from what a living supervisor says. Unavailable when it has none."""
    try:
        listeners = info["listeners"]
        secured = _https(listeners.get("inference-tls"))
        return _url(listeners["control"]), secured or _url(listeners["inference"])
    except (KeyError, TypeError) as error:
        raise errors.Unavailable(
            "a supervisor runs, but no plane: its notes were damaged", hint="end it with 'mizzen down' and start anew"
        ) from error


def authority(data_dir: Path) -> str:
    """The certificate (PEM) of the CA that vouches for the plane's TLS address. Unavailable, Forbidden."""
    file = data_dir / "tls" / "ca.pem"
    try:
        return file.read_text()
    except FileNotFoundError as error:
        raise errors.Unavailable(f"{file} is gone", hint="'mizzen down' and 'mizzen up' make it anew") from error
    except PermissionError as error:
        raise errors.Forbidden(f"{file} is not readable for you", hint="ask its owner for a kubeconfig") from error


def start_hint(data_dir: Path) -> str:
    flag = "" if data_dir == Path(DEFAULT_DATA_DIR) else f" --data-dir {data_dir}"
    return f"start one with 'mizzen up{flag}'"


def _token(file: Path) -> str | None:
    try:
        return file.read_text()
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise errors.Forbidden(
            f"{file} is not readable for you", hint="ask its owner for a token and set MIZZEN_TOKEN"
        ) from error


def _info(data_dir: Path) -> Mapping[str, Any] | None:
    """What the living supervisor says; None when there is none.

    One that was killed is waited for while it is being brought back. The word it left behind is not taken: whoever has
    its ports now would be sent the admin's token.
    """
    with _explained():
        return launch.alive_or_revived(Home.of(data_dir))


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except UnusableHome as error:
        raise errors.Forbidden(str(error), hint=error.hint) from error


def _tls_url(info: Mapping[str, Any]) -> str | None:
    return _https(info["listeners"].get("control-tls"))


def _https(listener: Mapping[str, Any] | None) -> str | None:
    if listener is None:
        return None
    # No certificate names 'all addresses'.
    everywhere = listener["host"] in ("0.0.0.0", "::")  # noqa: S104 - compared, not listened on
    return _url({**listener, "host": "localhost"} if everywhere else listener, "https")


def _grpc_address(info: Mapping[str, Any]) -> str | None:
    """As clients of gRPC write it, without a scheme."""
    listeners = info["listeners"]
    secured = _https(listeners.get("grpc-tls"))
    if secured is None:
        return _url(listeners["grpc"]).removeprefix("http://") if "grpc" in listeners else None
    return secured.removeprefix("https://")


def _url(listener: Mapping[str, Any], scheme: str = "http") -> str:
    host = str(listener["host"])
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{listener['port']}"
