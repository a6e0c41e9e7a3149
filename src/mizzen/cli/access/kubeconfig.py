"""`mizzen kubeconfig`: a configuration with which kubectl and Kubernetes client libraries reach a plane."""

from __future__ import annotations

import base64
import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from mizzen import errors
from mizzen.cli import output
from mizzen.cli.output import DataFormat, Format
from mizzen.cli.parameters import option
from mizzen.cli.session import PlaneConnection

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane
    from mizzen.sdk.connection.locate import PlaneAddress

NAME = "mizzen"
"""Name of the cluster and context, and prefix of the user: kubeconfigs are merged by name, and others have `admin`."""


def kubeconfig(
    *,
    host: Annotated[
        str | None,
        option("Host name of the plane, as seen by users of the file [default: as seen from here].", metavar="NAME"),
    ] = None,
    connection: PlaneConnection,
    form: Annotated[DataFormat, option("Output format.", "--output", "-o")] = DataFormat.YAML,
) -> None:
    """Print a kubeconfig for the plane. It holds the TLS address, the CA, and your token.

    Keep the file private: anyone who can read it has your permissions. If MIZZEN_TOKEN is set, the file holds that
    token; use this to make a kubeconfig for another user.

    \b
    Example:
      umask 077
      mizzen kubeconfig > ~/.kube/mizzen
      kubectl --kubeconfig ~/.kube/mizzen get models
    """

    async def work(plane: AsyncPlane) -> tuple[ClusterAccess, str]:
        # Reject an invalid token here, not when kubectl is used.
        return _read_access(plane.place), str((await plane.whoami())["name"])

    known, user = connection.call(work)
    server = _with_host(known.server, host) if host else known.server
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(known.authority.encode()).decode()}
    context = {"cluster": NAME, "user": f"{NAME}-{user}", "namespace": connection.namespace or "default"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": context["user"], "user": {"token": known.token}}],
        "contexts": [{"name": NAME, "context": context}],
        "current-context": NAME,
    }
    output.write_data(config, Format(form))
    _warn_of_readers()


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    server: str
    authority: str
    token: str


def _read_access(place: PlaneAddress) -> ClusterAccess:
    """Read the connection data, on the plane's own machine only: a CA fetched over the wire proves nothing."""
    from mizzen.sdk.connection import locate

    if place.data_dir is None:
        raise errors.BadRequest(
            f"the CA of {place.control_url} cannot be verified from here",
            hint="run it on the plane's machine with --data-dir; MIZZEN_TOKEN sets the user, --host the address",
        )
    if place.tls_url is None:
        raise errors.Unavailable(
            f"the plane in {place.data_dir} has no TLS address: an earlier version of Mizzen started it",
            hint="restart it with 'mizzen down' and 'mizzen up'",
        )
    if place.token is None:
        raise errors.Unauthenticated(
            "there is no token to put into a kubeconfig", hint="set MIZZEN_TOKEN; 'mizzen token create' creates one"
        )
    return ClusterAccess(place.tls_url, locate.authority(place.data_dir), place.token)


def _with_host(url: str, host: str) -> str:
    return f"https://{f'[{host}]' if ':' in host else host}:{urlsplit(url).port}"


def _warn_of_readers() -> None:
    """Warn if other users can read the output file; most shells create files that they can read."""
    with suppress(OSError):  # stdout is not a file
        mode = os.fstat(sys.stdout.fileno()).st_mode
        if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
            output.warn("other users can read the output file, which holds a token: chmod 600 it")
