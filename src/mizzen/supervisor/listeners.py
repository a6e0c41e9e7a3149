"""The listening sockets of a plane: the first supervisor binds them, later processes inherit them."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterable, Mapping, MutableMapping
from contextlib import suppress

from mizzen.supervisor.data_dir import Home, read_json, write_json
from mizzen.supervisor.processes import procfs
from mizzen.supervisor.protocol import Listener

VARIABLE = "MIZZEN_LISTENERS"
"""The environment variable that names inherited sockets: {"control": descriptor, …}."""

_BACKLOG = 2048


class CannotListen(Exception):
    """An address cannot be bound; the message names it and the program that holds it."""


class PortTaken(CannotListen):
    """Another program has the port."""


def take_inherited(environ: MutableMapping[str, str]) -> dict[str, int] | None:
    """Removes inherited sockets from the environment and returns them, or None if there are none.

    A child of a dead supervisor passes them to the supervisor that it starts.
    """
    text = environ.pop(VARIABLE, "")
    return {name: int(descriptor) for name, descriptor in json.loads(text).items()} if text else None


def open_all(home: Home, wanted: Iterable[Listener], inherited: Mapping[str, int]) -> dict[str, socket.socket]:
    """Returns a socket per listener name. Uses or closes `inherited` ones, keeps ports. Raises CannotListen."""
    remembered = read_json(home.ports) or {}
    sockets: dict[str, socket.socket] = {}
    for listener in wanted:
        if listener.name in inherited:
            sockets[listener.name] = socket.socket(fileno=inherited[listener.name])
            os.set_inheritable(inherited[listener.name], False)
        else:
            sockets[listener.name] = _open(listener, remembered.get(listener.name, 0))
    for name in inherited.keys() - sockets.keys():
        os.close(inherited[name])
    write_json(home.ports, {name: address(listening)["port"] for name, listening in sockets.items()})
    return sockets


def address(listening: socket.socket) -> dict[str, str | int]:
    host, port = listening.getsockname()[:2]
    return {"host": host, "port": port}


def _open(listener: Listener, remembered: int) -> socket.socket:
    if listener.port:
        return _bind(listener, listener.port)
    if remembered:
        with suppress(CannotListen):  # another program took the port while the plane was down; any free one will do
            return _bind(listener, remembered)
    return _bind(listener, 0)


def _bind(listener: Listener, port: int) -> socket.socket:
    try:
        family, kind, _, _, where = socket.getaddrinfo(listener.host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise CannotListen(f"{listener.host} is not an address of this machine: {error.strerror}") from error
    listening = socket.socket(family, kind)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno != errno.EADDRINUSE:
            raise CannotListen(
                f"cannot listen on {listener.host}:{port} ({listener.name}): {error.strerror}"
            ) from error
        holder = procfs.holder_of(port) or "another program"
        raise PortTaken(f"port {port} ({listener.name}) is taken by {holder}") from error
    listening.setblocking(False)
    return listening
