"""`Idempotency-Key`: who repeats a call because its answer was lost gets the first answer, and not a second job set.

Nothing is kept for it but the job set itself: its name is derived from who called, what and with which key, and it is
marked with a digest of that and of what was sent. After a day the key may stand for another call.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import Any

from starlette.requests import Request

from mizzen.access.policy import Actor
from mizzen.errors import BadRequest, Conflict, NotFound
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.kinds.training import IDEMPOTENCY_ANNOTATION
from mizzen.server.admission.decode import Draft, same
from mizzen.server.http.context import Plane
from mizzen.stores.store import Revision

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEPT = timedelta(hours=24)
LONGEST_KEY = 255
LONGEST = 63
"""Characters of a name."""
LETTERS, LENGTH = "abcdefghijklmnopqrstuvwxyz0123456789", 5


@dataclass(frozen=True, slots=True)
class Key:
    call: str
    """Digest of who called, what, and with which key."""
    spec: Mapping[str, Any]
    """What was sent."""
    actor: str
    """Who called."""

    @classmethod
    def of(cls, actor: str, key: str, path: str, spec: Mapping[str, Any]) -> Key:
        return cls(_digest(json.dumps([actor, key, path])), spec, actor)

    @property
    def sent(self) -> str:
        return _digest(json.dumps(self.spec, sort_keys=True))

    @property
    def mark(self) -> str:
        return f"{self.call}.{self.sent}"


def asked(request: Request, actor: Actor, path: str, spec: Mapping[str, Any]) -> Key | None:
    """The key of this call, if it has one. BadRequest."""
    given = request.headers.getlist(HEADER)
    if not given:
        return None
    key = given[0]
    if len(given) > 1 or not 0 < len(key) <= LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise BadRequest(f"{HEADER}: one, of 1 to {LONGEST_KEY} visible characters", hint="a UUID is a good one")
    return Key.of(actor.name, key, path, spec)


def names(model: str, version: str, key: Key | None) -> Iterator[str]:
    """Names for job sets of a version: iris-3-k2x9a. With a key always the same ones, in the same order."""
    for number in count():
        letters = _random() if key is None else _derived(f"{key.call}.{number}")
        whole, end = f"{model}-{version.replace('.', '-')}", f"-{letters}"
        if len(whole) + len(end) > LONGEST:
            end = f"-{hashlib.sha256(f'{model}.{version}'.encode()).hexdigest()[:8]}{end}"
        yield whole[: LONGEST - len(end)].rstrip("-") + end


def marked(draft: Draft, key: Key) -> Draft:
    """As the call with this key makes it."""
    return replace(draft, annotations={**draft.annotations, IDEMPOTENCY_ANNOTATION: key.mark})


async def earlier(plane: Plane, ref: Ref, key: Key | None) -> Resource | None:
    """The job set that an earlier call with this key made under this name, at most a day ago; None: it made none.

    Conflict when that call asked for something else. One whose object is gone is told as history knows it.
    """
    if key is None:
        return None
    try:
        found = await plane.store.get(ref)
    except NotFound:
        return await _gone(plane, ref, key)
    call, _, sent = found.meta.annotations.get(IDEMPOTENCY_ANNOTATION, "").partition(".")
    if call != key.call or found.meta.created is None or plane.now() - found.meta.created >= KEPT:
        return None  # another one's, or an old one: the next name is asked for
    made = await _made(plane, ref)
    if made is None or (made.uid, made.actor) != (found.meta.uid, key.actor):
        return None
    _refuse_other(found.ref, same_sent=sent == key.sent)
    return found


async def _gone(plane: Plane, ref: Ref, key: Key) -> Resource | None:
    made = await _made(plane, ref)
    if made is None or made.actor != key.actor or plane.now() - made.time >= KEPT:
        return None
    spec = made.after or {}
    _refuse_other(ref, same_sent=same(spec, key.spec))
    return Resource(ref.kind, Meta(ref.name, ref.namespace, uid=made.uid, created=made.time), spec)


async def _made(plane: Plane, ref: Ref) -> Revision | None:
    """Who made the last object of this name, and when."""
    return next((one for one in reversed(await plane.store.history(ref)) if one.action == "created"), None)


def _refuse_other(ref: Ref, *, same_sent: bool) -> None:
    if not same_sent:
        raise Conflict(
            f"this {HEADER} stands for another call, which made {ref}: what was sent then is not what is sent now",
            hint="send a new key with each new call; the same one only to repeat a call",
        )


def _random() -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(LENGTH))


def _derived(text: str) -> str:
    number = int(hashlib.sha256(text.encode()).hexdigest(), 16)
    return "".join(LETTERS[number // len(LETTERS) ** place % len(LETTERS)] for place in range(LENGTH))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
