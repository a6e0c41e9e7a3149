"""kubeconfig: what kubectl, and every client library of Kubernetes, needs to speak to a plane."""

from __future__ import annotations

import base64
import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from mizzen import errors
from mizzen.cli import output
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Namespace, call

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane
    from mizzen.sdk.connection.locate import Place

NAME = "mizzen"
"""Of cluster and context. Users add their own: files are merged by name, and other clusters have an admin, too."""


class Written(StrEnum):
    YAML = "yaml"
    JSON = "json"


def kubeconfig(
    *,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What the plane's machine is called where the file will be used [default: as it is called here].",
        ),
    ] = None,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Annotated[
        Written, typer.Option("--output", "-o", help="How to print it; kubectl reads both.")
    ] = Written.YAML,
) -> None:
    """Print a kubeconfig for the plane: its address with TLS, its CA, and your token.

    It holds a token: whoever reads it may do what you may, so keep the file to yourself. Where MIZZEN_TOKEN is set,
    that is the token, which is how one is made for somebody else.

    \b
    Example:
      umask 077
      mizzen kubeconfig > ~/.kube/mizzen
      kubectl --kubeconfig ~/.kube/mizzen get models
    """

    async def work(plane: AsyncPlane) -> tuple[Known, str]:
        # A token that opens nothing is told of here, and not when kubectl is used.
        return _known(plane.place), str((await plane.whoami())["name"])

    known, user = call(data_dir, work)
    server = _called(known.server, host) if host else known.server
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(known.authority.encode()).decode()}
    context = {"cluster": NAME, "user": f"{NAME}-{user}", "namespace": namespace or "default"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": context["user"], "user": {"token": known.token}}],
        "contexts": [{"name": NAME, "context": context}],
        "current-context": NAME,
    }
    output.data(config, Format(form))
    _warn_of_readers()


@dataclass(frozen=True, slots=True)
class Known:
    server: str
    authority: str
    token: str


def _known(place: Place) -> Known:
    """From the plane's own machine only: a CA that comes over the wire vouches for whoever sent it."""
    from mizzen.sdk.connection import locate

    if place.data_dir is None:
        raise errors.BadRequest(
            f"the CA of {place.control_url} cannot be known from here",
            hint="run it on the plane's machine, with --data-dir; MIZZEN_TOKEN there says for whom, --host for where",
        )
    if place.tls_url is None:
        raise errors.Unavailable(
            f"the plane in {place.data_dir} has no address with TLS: an earlier version started it",
            hint="end it with 'mizzen down' and start it anew",
        )
    if place.token is None:
        raise errors.Unauthenticated(
            "there is no token to put into a kubeconfig", hint="set MIZZEN_TOKEN; 'mizzen token create' makes one"
        )
    return Known(place.tls_url, locate.authority(place.data_dir), place.token)


def _called(url: str, host: str) -> str:
    return f"https://{f'[{host}]' if ':' in host else host}:{urlsplit(url).port}"


def _warn_of_readers() -> None:
    """Most shells make files that everybody on the machine can read."""
    with suppress(OSError):  # it is no file
        mode = os.fstat(sys.stdout.fileno()).st_mode
        if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
            output.warn("others can read the file this went to, and it holds a token: chmod 600 it")
