"""Publisher of access.json, which holds the rights of callers for gateways. `access/access_file.py` defines its format.

A change that revokes a right is published before it is acknowledged: the control API waits for `wait_published` before
it responds. Gateways read the file every 50 ms, so a revoked token or a deleted RoleBinding stops working at most that
long after the response. Changes that no request makes, such as the acceptance of a RoleBinding, are found by a watch.
An issuer's keys are fetched again every minute.

When the store or the issuer cannot be read, the last file stays and gateways keep using it. Only its owner can read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import NoReturn, Protocol

import msgspec

from mizzen.access import access_file
from mizzen.access.access_file import AccessFile, Issuer, TokenEntry
from mizzen.access.jwt import Key, TrustedIssuer
from mizzen.access.policy import Binding
from mizzen.errors import Expired, Unavailable
from mizzen.reconcile.retry_forever import LONGEST_DELAY, retry_forever
from mizzen.stores.marks.checkpoint import StoreMark
from mizzen.stores.published_file import PublishedFile
from mizzen.stores.records.protocol import Identities, Token
from mizzen.stores.store import Store

KIND = "RoleBinding"
NO_MARK = StoreMark("", 0, 0)
FAILURE = "access.json cannot be published"

log = logging.getLogger(__name__)


class KeySource(Protocol):
    async def all(self) -> tuple[Key, ...]:
        """The issuer's public keys, current or recently cached. Raises Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class IssuerWithKeys:
    """The issuer whose JWTs are accepted, and the source of its keys."""

    trust: TrustedIssuer
    keys: KeySource


class AccessPublisher:
    def __init__(
        self,
        store: Store,
        identities: Identities,
        bindings: Callable[[], Awaitable[tuple[Binding, ...]]],
        path: Path,
        *,
        admin: TokenEntry,
        anonymous: bool,
        trusted_issuer: IssuerWithKeys | None,
        now: Callable[[], datetime],
        mark: Callable[[], StoreMark] = lambda: NO_MARK,
        check_interval: float = 1.0,
        fetch_interval: float = 60.0,
    ) -> None:
        """`bindings` returns all bindings, including every acknowledged change. `check_interval`: seconds between two
        comparisons with the file when no change was signaled. `fetch_interval`: seconds between two fetches of an
        issuer's keys. `mark`: how far the store has come; each file says so.
        """
        self._store = store
        self._identities = identities
        self._bindings = bindings
        self._file = PublishedFile(path)
        self._admin = admin
        self._anonymous = anonymous
        self._trusted_issuer = trusted_issuer
        self._now = now
        self._mark = mark
        self._check_interval = check_interval
        self._fetch_interval = fetch_interval
        self._published = _read_last(path)
        self._published_position: tuple[int, str] | None = None
        """The generation of identities and the position of bindings that the file's contents were read at."""
        self._keys = _keys_of(self._published, trusted_issuer)
        self._changed = asyncio.Event()
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(retry_forever(self._follow, FAILURE, log), name="access: follow")
            tasks.create_task(retry_forever(self._publish_changes, FAILURE, log), name="access: publish")
            if self._trusted_issuer is not None:
                tasks.create_task(retry_forever(self._fetch_keys, FAILURE, log), name="access: keys")

    async def wait_published(self) -> None:
        """Return once the file holds every change the caller has made. Raises Unavailable when it cannot be written."""
        if self._published_position == self._position():
            return
        try:
            async with self._lock:
                if self._published_position != self._position():
                    await self._publish()
        except OSError as error:
            log.exception("cannot write %s", self._file.path)
            raise Unavailable(
                f"the change was saved, but gateways do not see it yet: {self._file.path.name} cannot be written",
                hint="check for a full disk or missing permissions; the plane keeps retrying",
            ) from error

    async def publish(self) -> bool:
        """Write the current state. False: the file already holds it, so nothing is written."""
        async with self._lock:
            return await self._publish()

    async def _publish(self) -> bool:
        # Taken before anything is read: a change in between is then published twice rather than never.
        position = self._position()
        last = self._published
        access = await self._read_access()
        same = (
            last is not None
            and access.store == last.store
            and msgspec.structs.replace(access, serial=last.serial, commits=last.commits) == last
        )
        if same and last is not None and await self._file.holds(access_file.encode(last)):
            self._published_position = position
            return False
        access = msgspec.structs.replace(access, serial=last.serial + 1 if last else 1)
        await self._file.replace(access_file.encode(access))
        self._published = access
        self._published_position = position
        log.info("access %d: %d tokens, %d bindings", access.serial, len(access.passes), len(access.grants))
        return True

    async def _read_access(self) -> AccessFile:
        now, mark = self._now(), self._mark()
        tokens = (token for token in await self._identities.tokens() if token.valid(now))
        return AccessFile(
            store=mark.store,
            commits=mark.commits,
            anonymous=self._anonymous,
            passes=(self._admin, *map(_to_entry, tokens)),
            grants=tuple(await self._bindings()),
            limits=tuple(kept.limit for kept in await self._identities.limits()),
            issuer=self._issuer(),
        )

    def _issuer(self) -> Issuer | None:
        if self._trusted_issuer is None:
            return None
        return Issuer(**asdict(self._trusted_issuer.trust), keys=tuple(map(dict, self._keys)))

    def _position(self) -> tuple[int, str]:
        return self._identities.generation(), self._store.position(KIND)

    async def _follow(self) -> NoReturn:
        while True:
            listing = await self._store.list(KIND, limit=1)
            self._changed.set()
            try:
                async for _event in self._store.watch(KIND, listing.resource_version):
                    self._changed.set()
            except Expired:
                continue
            raise RuntimeError("the watch ended by itself")

    async def _publish_changes(self) -> NoReturn:
        while True:
            self._changed.clear()
            await self.publish()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._check_interval):
                    await self._changed.wait()

    async def _fetch_keys(self) -> NoReturn:
        assert self._trusted_issuer is not None
        while True:
            try:
                keys = await self._trusted_issuer.keys.all()
            except Unavailable:  # the fetcher has logged the reason, and how long old keys stay valid
                keys = ()
            if keys != self._keys:
                self._keys = keys
                self._changed.set()
            await asyncio.sleep(self._fetch_interval if keys else min(LONGEST_DELAY, self._fetch_interval))


def _to_entry(token: Token) -> TokenEntry:
    expires = token.expires.timestamp() if token.expires else None
    return TokenEntry(digest=token.digest, id=token.id, principal=token.principal, expires=expires)


def _read_last(path: Path) -> AccessFile | None:
    try:
        return access_file.decode(path.read_bytes())
    except (OSError, ValueError):
        return None


def _keys_of(last: AccessFile | None, trusted_issuer: IssuerWithKeys | None) -> tuple[Key, ...]:
    """The keys in the file, used until new ones are fetched: a restart of the plane must not lock callers out."""
    if last is None or last.issuer is None or trusted_issuer is None:
        return ()
    return last.issuer.keys if last.issuer.issuer == trusted_issuer.trust.issuer else ()
