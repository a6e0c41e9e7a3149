"""Keys and tokens: they can be read, belong together, and no other user can read them."""

from __future__ import annotations

import asyncio
import ssl
import stat
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mizzen.diagnosis.defects import Defect, Patient
from mizzen.diagnosis.store_checks import DATABASE
from mizzen.errors import MizzenError, NotFound
from mizzen.server.auth.tokens import AdminToken
from mizzen.stores.records.protocol import SealedSecret
from mizzen.stores.records.vault import Vault
from mizzen.stores.sqlite import schema
from mizzen.web import tls

_PRIVATE: Final = (
    "admin-token", "secret-key", "page-key", "access.json", "table.json", "mizzen.checkpoint", "mizzen.db",
    "mizzen.db-wal", "mizzen.db-shm", "tls/ca-key.pem", "tls/server-key.pem",
)  # fmt: skip
_AUTHORITY: Final = "ca.pem"
_TLS: Final = ((_AUTHORITY, "ca-key.pem"), ("server.pem", "server-key.pem"))


def check_permissions(patient: Patient) -> Iterator[Defect]:
    """Owners and modes."""
    owner = patient.root.stat().st_uid
    for name in _PRIVATE:
        path = patient.root / name
        try:
            found = path.stat()
        except OSError:
            continue
        if found.st_uid != owner:
            what = f"{name} belongs to another user (uid {found.st_uid}) than the data dir (uid {owner})"
            yield Defect("permissions", what, str(path), f"run as root: chown {owner} {path}")
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            what = f"others can read {name} (mode {stat.S_IMODE(found.st_mode):o})"
            defect = Defect("permissions", what, str(path), f"chmod 600 {path}")
            yield patient.mend(defect, lambda path=path: _hide(path))  # type: ignore[misc]


def check_keys(patient: Patient) -> Iterator[Defect]:
    root = patient.root
    token = root / "admin-token"
    if token.exists():
        try:
            AdminToken.load_or_create(token)
        except (MizzenError, OSError) as error:
            yield _explain("keys", error, token)
    elif (root / DATABASE).exists() and patient.running:
        what = "admin-token is missing; the running plane still knows it"
        yield Defect("keys", what, str(token), "'mizzen down' and 'mizzen up' create a new one")
    yield from _check_secret_key(root)
    for certificate, key in _TLS:
        yield from _check_pair(root / "tls" / certificate, root / "tls" / key)


def _check_secret_key(root: Path) -> Iterator[Defect]:
    path = root / "secret-key"
    try:
        asyncio.run(Vault(_StoredSecrets(root / DATABASE), path).check())
    except (MizzenError, OSError) as error:
        yield _explain("keys", error, path)


def _check_pair(certificate: Path, key: Path) -> Iterator[Defect]:
    if not certificate.exists() and not key.exists():
        return
    try:
        context = tls.build_context(certificate, key)
        if certificate.name != _AUTHORITY:
            tls.check_certificate(context)
    except FileNotFoundError:
        lost = key if certificate.exists() else certificate
        yield Defect("keys", f"{lost.name} is missing", str(lost), _RENEWED)
    except (ssl.SSLError, OSError, ValueError) as error:
        yield Defect("keys", f"{certificate.name} and {key.name} cannot be used: {error}", str(certificate), _RENEWED)


_RENEWED: Final = (
    "a start creates server certificates again, but never the CA's key, which clients trust: put its copy back, or "
    "remove ca.pem and ca-key.pem and give clients the new CA"
)


class _StoredSecrets:
    """Reads sealed secrets from a database; implements what a check needs of `Secrets`."""

    def __init__(self, database: Path) -> None:
        self._database = database

    async def get(self, namespace: str, name: str) -> SealedSecret:
        if not self._database.exists():
            raise NotFound("no secrets")
        with closing(schema.open_untouched(self._database)) as connection:
            query = "SELECT sealed FROM secrets WHERE namespace = ? AND name = ?"
            found = connection.execute(query, (namespace, name)).fetchall()
        if not found:
            raise NotFound("no such secret")
        return SealedSecret(namespace, name, (), found[0][0], datetime.fromtimestamp(0, UTC), "")

    async def put(self, secret: SealedSecret) -> None:
        raise NotImplementedError

    async def list(self, namespace: str) -> tuple[SealedSecret, ...]:
        raise NotImplementedError

    async def delete(self, namespace: str, name: str) -> None:
        raise NotImplementedError


def _explain(check: str, error: MizzenError | OSError, path: Path) -> Defect:
    if isinstance(error, MizzenError):
        return Defect(check, error.message, str(path), error.hint)
    return Defect(check, f"{path.name} cannot be read: {error.strerror}", str(path), "check its owner and mode")


def _hide(path: Path) -> str:
    path.chmod(0o600)
    return "mode 600"
