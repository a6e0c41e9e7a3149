"""`Idempotency-Key`: a caller that repeats a call after a lost response gets the first job set, not a second one.

Only the job set itself is stored: its name is derived from the caller, the path and the key, and an annotation holds a
digest of these and of the body. After a day the key may be used for another call.
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
from mizzen.errors import BadRequest, Conflict
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.kinds.training import IDEMPOTENCY_ANNOTATION
from mizzen.reconcile.controller import find
from mizzen.server.admission import model_family
from mizzen.server.admission.decode import Draft, is_same
from mizzen.server.http.context import ServerContext
from mizzen.stores.store import Revision

HEADER = "Idempotency-Key"
REPLAY_HEADER = "Idempotency-Replayed"
RETENTION = timedelta(hours=24)
LONGEST_KEY = 255

LETTERS, LENGTH = "abcdefghijklmnopqrstuvwxyz0123456789", 5


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    call: str
    """A digest of the caller, the path and the key."""
    spec: Mapping[str, Any]
    """The body of the call."""
    actor: str
    """The name of the caller."""

    @classmethod
    def of(cls, actor: str, key: str, path: str, spec: Mapping[str, Any]) -> IdempotencyKey:
        return cls(_digest(json.dumps([actor, key, path])), spec, actor)

    @property
    def sent_digest(self) -> str:
        return _digest(json.dumps(self.spec, sort_keys=True))

    @property
    def mark(self) -> str:
        return f"{self.call}.{self.sent_digest}"


def key_of(request: Request, actor: Actor, path: str, spec: Mapping[str, Any]) -> IdempotencyKey | None:
    """Returns the key of this call, if it has one. Raises BadRequest."""
    values = request.headers.getlist(HEADER)
    if not values:
        return None
    key = values[0]
    if len(values) > 1 or not 0 < len(key) <= LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise BadRequest(
            f"{HEADER}: expected one value of 1 to {LONGEST_KEY} printable characters", hint="send a UUID, for example"
        )
    return IdempotencyKey.of(actor.name, key, path, spec)


def job_names(model: str, version: str, key: IdempotencyKey | None) -> Iterator[str]:
    """Yields names for a job set of a version, such as iris-3-k2x9a. A key always yields the same names in order."""
    for number in count():
        letters = _random_suffix() if key is None else _derived_suffix(f"{key.call}.{number}")
        yield model_family.derive_name(model, version, f"-{letters}")


def with_key(draft: Draft, key: IdempotencyKey) -> Draft:
    """Returns the draft with the annotation of this key."""
    return replace(draft, annotations={**draft.annotations, IDEMPOTENCY_ANNOTATION: key.mark})


async def find_earlier(context: ServerContext, ref: Ref, key: IdempotencyKey | None) -> Resource | None:
    """Returns the job set that an earlier call with this key created under this name within the last day, if any.

    Raises Conflict if that call had another body. A deleted job set is returned as history recorded it.
    """
    if key is None:
        return None
    found = await find(context.store, ref)
    if found is None:
        return await _find_deleted(context, ref, key)
    call, _, sent = found.meta.annotations.get(IDEMPOTENCY_ANNOTATION, "").partition(".")
    if call != key.call or found.meta.created is None or context.now() - found.meta.created >= RETENTION:
        return None  # of another caller, or too old: the next name is tried
    creation = await _last_creation(context, ref)
    if creation is None or (creation.uid, creation.actor) != (found.meta.uid, key.actor):
        return None
    _refuse_other(found.ref, same_sent=sent == key.sent_digest)
    return found


async def _find_deleted(context: ServerContext, ref: Ref, key: IdempotencyKey) -> Resource | None:
    creation = await _last_creation(context, ref)
    if creation is None or creation.actor != key.actor or context.now() - creation.time >= RETENTION:
        return None
    spec = creation.after or {}
    _refuse_other(ref, same_sent=is_same(spec, key.spec))
    return Resource(ref.kind, Meta(ref.name, ref.namespace, uid=creation.uid, created=creation.time), spec)


async def _last_creation(context: ServerContext, ref: Ref) -> Revision | None:
    """Returns the creation of the last object of this name."""
    return next((one for one in reversed(await context.store.history(ref)) if one.action == "created"), None)


def _refuse_other(ref: Ref, *, same_sent: bool) -> None:
    if not same_sent:
        raise Conflict(
            f"this {HEADER} was used for another call, which created {ref} with a different body",
            hint="use a new key for each new call; reuse a key only to repeat a call",
        )


def _random_suffix() -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(LENGTH))


def _derived_suffix(text: str) -> str:
    number = int(hashlib.sha256(text.encode()).hexdigest(), 16)
    return "".join(LETTERS[number // len(LETTERS) ** place % len(LETTERS)] for place in range(LENGTH))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
