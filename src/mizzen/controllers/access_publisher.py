"""Publish access.json: who may ask gateways what. `access/access_file.py` says what it holds.

What withdraws a right is published before it is acknowledged: the control API waits for `settled` before it answers a
change. Gateways look at the file every 50 ms, so a revoked token or a deleted RoleBinding opens nothing there any more
that long after the acknowledgement. What changes by itself, such as the acceptance of a RoleBinding, is followed by
watching, and an issuer's keys are fetched anew every minute.

When the store or the issuer cannot be read, the last file stays: gateways go on with it. Its owner alone can read it.
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
from mizzen.access.access_file import Access, Grant, Issuer, Pass
from mizzen.access.jwt import Key, Trust
from mizzen.access.policy import Binding
from mizzen.errors import Expired, Unavailable
from mizzen.reconcile.retry_forever import LONGEST_DELAY, persist
from mizzen.stores.published_file import PublishedFile
from mizzen.stores.records.protocol import Identities
from mizzen.stores.store import Store

KIND = "RoleBinding"
FAILURE = "who may ask gateways what cannot be published"

log = logging.getLogger(__name__)


class Keys(Protocol):
    async def all(self) -> tuple[Key, ...]:
        """The issuer's public keys, as they are now or were not long ago. Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Vouching:
    """Whose JWTs are taken, and where the keys come from."""

    trust: Trust
    keys: Keys


class AccessPublisher:
    def __init__(
        self,
        store: Store,
        identities: Identities,
        bindings: Callable[[], Awaitable[tuple[Binding, ...]]],
        path: Path,
        *,
        admin: Pass,
        anonymous: bool,
        vouching: Vouching | None,
        now: Callable[[], datetime],
        look_every: float = 1.0,
        fetch_every: float = 60.0,
    ) -> None:
        """`bindings` gives all there are, with every change that was acknowledged. `look_every`: seconds after which
        all is compared again when nobody said that anything changed, `fetch_every`: for an issuer's keys.
        """
        self._store = store
        self._identities = identities
        self._bindings = bindings
        self._file = PublishedFile(path)
        self._admin = admin
        self._anonymous = anonymous
        self._vouching = vouching
        self._now = now
        self._look_every = look_every
        self._fetch_every = fetch_every
        self._published = _last(path)
        self._said: tuple[int, str] | None = None
        """What the file says was read at this generation of identities and this position of bindings."""
        self._keys = _keys_of(self._published, vouching)
        self._changed = asyncio.Event()
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(persist(self._follow, FAILURE, log), name="access: follow")
            tasks.create_task(persist(self._publish_changes, FAILURE, log), name="access: publish")
            if self._vouching is not None:
                tasks.create_task(persist(self._fetch_keys, FAILURE, log), name="access: keys")

    async def settled(self) -> None:
        """The file says what was acknowledged to whoever calls this. Unavailable when it cannot be written."""
        if self._said == self._position():
            return
        try:
            async with self._lock:
                if self._said != self._position():
                    await self._publish()
        except OSError as error:
            log.exception("cannot write %s", self._file.path)
            raise Unavailable(
                f"the change was made, but gateways cannot be told: {self._file.path.name} cannot be written",
                hint="look for a full disk or missing permissions; it is tried again and again",
            ) from error

    async def publish(self) -> bool:
        """Write down the present state. False: the file says the same already, so nothing is written."""
        async with self._lock:
            return await self._publish()

    async def _publish(self) -> bool:
        # Noted before anything is read: a change in between is read twice rather than never.
        position = self._position()
        last = self._published
        access = await self._present()
        same = last is not None and msgspec.structs.replace(access, serial=last.serial) == last
        if same and last is not None and await self._file.holds(access_file.encode(last)):
            self._said = position
            return False
        access = msgspec.structs.replace(access, serial=last.serial + 1 if last else 1)
        await self._file.replace(access_file.encode(access))
        self._published = access
        self._said = position
        log.info("access %d: %d tokens, %d bindings", access.serial, len(access.passes), len(access.grants))
        return True

    async def _present(self) -> Access:
        now = self._now()
        tokens = [token for token in await self._identities.tokens() if token.valid(now)]
        passes = [
            Pass(
                digest=token.digest,
                id=token.id,
                principal=token.principal,
                expires=token.expires.timestamp() if token.expires else None,
            )
            for token in tokens
        ]
        return Access(
            anonymous=self._anonymous,
            passes=(self._admin, *passes),
            grants=tuple(map(Grant.of, await self._bindings())),
            limits=tuple(kept.limit for kept in await self._identities.limits()),
            issuer=self._issuer(),
        )

    def _issuer(self) -> Issuer | None:
        if self._vouching is None:
            return None
        return Issuer(**asdict(self._vouching.trust), keys=tuple(map(dict, self._keys)))

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
                async with asyncio.timeout(self._look_every):
                    await self._changed.wait()

    async def _fetch_keys(self) -> NoReturn:
        assert self._vouching is not None
        while True:
            try:
                keys = await self._vouching.keys.all()
            except Unavailable:  # whoever fetches them has said why, and how long old ones are good
                keys = ()
            if keys != self._keys:
                self._keys = keys
                self._changed.set()
            await asyncio.sleep(self._fetch_every if keys else min(LONGEST_DELAY, self._fetch_every))


def _last(path: Path) -> Access | None:
    try:
        return access_file.decode(path.read_bytes())
    except (OSError, ValueError):
        return None


def _keys_of(last: Access | None, vouching: Vouching | None) -> tuple[Key, ...]:
    """Those of the file, until they are fetched anew: a plane that starts again must not lock anybody out."""
    if last is None or last.issuer is None or vouching is None:
        return ()
    return last.issuer.keys if last.issuer.issuer == vouching.trust.issuer else ()
