"""Pages of listings: their size limits, and the tokens that continue after them.

Clients get tokens and send them back. Tokens hold nothing secret and are validated.
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
"""Maximum bytes of a page, in stored form: bounds the response however large the objects are."""


@dataclass(frozen=True, slots=True)
class Unread(Generic[T_co]):
    """The content of a row, not yet decoded: `fill_page` checks its size first."""

    size: int
    read: Callable[[], T_co]


def fill_page(found: Iterable[Unread[T]], limit: int | None, most: int = PAGE_BYTES) -> tuple[list[T], bool]:
    """Returns the items of one page, and whether more follow.

    A page has at most `limit` items and at most `most` bytes, unless its first item alone is larger. Items left for
    the next page are not decoded.
    """
    page: list[T] = []
    size = 0
    for one in found:
        if page and (len(page) == limit or size + one.size > most):
            return page, True
        page.append(one.read())
        size += one.size
    return page, False


class _PageStart:
    """A place where pages continue."""

    __slots__ = ()

    def token(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class ListCursor(_PageStart):
    """Where a listing continues: after this key. `rv` is the resource version of its first page."""

    rv: int
    kind: str
    namespace: str
    name: str
    where: str
    """Digest of the selection (`Where`) that is listed."""

    @classmethod
    def behind(cls, last: Resource, rv: int, where: Where) -> Self:
        """Returns the cursor after this object of a listing."""
        return cls(rv, last.kind, last.meta.namespace, last.meta.name, digest(where))

    @classmethod
    def parse(cls, token: str, kind: str, where: Where) -> ListCursor:
        place = _decode(token, cls)
        if place.kind != kind or place.where != digest(where):
            raise BadRequest(
                "this continue token belongs to another listing",
                hint="send it with the same selectors, or start again",
            )
        return place


@dataclass(frozen=True, slots=True)
class FamilyPlace(_PageStart):
    """Where the history of a model and its dependents continues: after this resource version."""

    rv: int
    namespace: str
    model: str

    @classmethod
    def parse(cls, token: str, model: Ref) -> FamilyPlace:
        place = _decode(token, cls)
        if (place.namespace, place.model) != (model.namespace, model.name):
            raise BadRequest("this token belongs to another history", hint="start again without it")
        return place


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise BadRequest(f"{limit} is not a valid page size; expected at least 1")


def digest(where: Where) -> str:
    """Returns an equal digest for equal selections; the order of conditions does not matter."""
    labels = sorted((one.key, one.op, sorted(one.values)) for one in where.labels)
    plain = (where.namespace, labels, sorted(where.fields.items()), sorted(where.unlike), where.owner)
    return hashlib.sha256(msgspec.json.encode(plain)).hexdigest()[:16]


def _decode(token: str, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=type_)
    except (ValueError, msgspec.MsgspecError) as error:
        raise BadRequest("this is not a valid continue token", hint="start again without it") from error
