"""Pages: how much goes on one, and where to go on after it.

Tokens say where, in a form to be handed out and back. They hold nothing secret and are checked.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import msgspec

from mizzen.errors import BadRequest
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.stores.store import Where

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PAGE_BYTES = 4 << 20
"""Of a page, as the store keeps what is on it: however large objects are, an answer is not."""


@dataclass(frozen=True, slots=True)
class Unread(Generic[T_co]):
    """What a row holds, not decoded yet: whoever fills a page looks at its size first."""

    size: int
    read: Callable[[], T_co]


def fill_page(found: Iterable[Unread[T]], limit: int | None, most: int = PAGE_BYTES) -> tuple[list[T], bool]:
    """What goes on one page: at most `limit`, and no more than `most` bytes unless one alone is larger. True: there is
    more. What is left for the next page is not decoded."""
    page: list[T] = []
    size = 0
    for one in found:
        if page and (len(page) == limit or size + one.size > most):
            return page, True
        page.append(one.read())
        size += one.size
    return page, False


@dataclass(frozen=True, slots=True)
class ListCursor:
    """Where a listing goes on: after this key; `rv` is the version its first page was read at."""

    rv: int
    kind: str
    namespace: str
    name: str
    where: str
    """Stands for what the listing is of."""

    @classmethod
    def behind(cls, last: Resource, rv: int, where: Where) -> Self:
        """After this object of a listing."""
        return cls(rv, last.kind, last.meta.namespace, last.meta.name, digest(where))

    def token(self) -> str:
        return _encode(self)

    @classmethod
    def parse(cls, token: str, kind: str, where: Where) -> ListCursor:
        place = _decode(token, cls)
        if place.kind != kind or place.where != digest(where):
            raise BadRequest(
                "this continue token belongs to another listing", hint="send it with the same selectors, or start again"
            )
        return place


@dataclass(frozen=True, slots=True)
class FamilyPlace:
    """Where the history of a model's family goes on: after this resource version."""

    rv: int
    namespace: str
    model: str

    def token(self) -> str:
        return _encode(self)

    @classmethod
    def parse(cls, token: str, model: Ref) -> FamilyPlace:
        place = _decode(token, cls)
        if (place.namespace, place.model) != (model.namespace, model.name):
            raise BadRequest("this token continues another history", hint="start again without it")
        return place


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise BadRequest(f"a page has at least 1 item, not {limit}")


def digest(where: Where) -> str:
    """Equal for what selects the same: the order of conditions does not matter."""
    labels = sorted((one.key, one.op, sorted(one.values)) for one in where.labels)
    plain = (where.namespace, labels, sorted(where.fields.items()), sorted(where.unlike), where.owner)
    return hashlib.sha256(msgspec.json.encode(plain)).hexdigest()[:16]


def _encode(place: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _decode(token: str, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=type_)
    except (ValueError, msgspec.MsgspecError) as error:
        raise BadRequest("this is not a valid continue token", hint="start again without it") from error
