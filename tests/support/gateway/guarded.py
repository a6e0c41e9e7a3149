"""A gateway that serves people with rights only: who they are, what they may, and what is served."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from mizzen.access import access_file, credentials, refusal_lines
from mizzen.access.access_file import AccessFile, Issuer, TokenEntry
from mizzen.access.limits import Limit
from mizzen.access.policy import Binding, Verb
from mizzen.access.refusal_lines import Refusal
from mizzen.graph.table_types import Plan, Route, Server, Table
from tests.support.gateway.harness import Gateway, Response, body_of

START = time.time()


class Clock:
    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> float:
        return self.time


def bound(who: str, verb: Verb, model: str = "", alias: str = "", namespace: str = "default") -> Binding:
    return Binding(f"{who}-{verb}", namespace, frozenset({who}), frozenset({verb}), model, alias)


def token(name: str, *, admin: bool = False, expires: float | None = None) -> TokenEntry:
    """Its secret is `<name>-token`."""
    return TokenEntry(digest=credentials.digest(f"{name}-token"), id=name, principal=name, admin=admin, expires=expires)


PASSES = (token("root", admin=True), token("ann"), token("bob"), token("eve"))
BINDINGS = (
    bound("ann", "predict", "iris"),
    bound("bob", "predict", "iris", "prod"),
    bound("eve", "read", "rose"),
)


def permit(
    folder: Path,
    passes: tuple[TokenEntry, ...] = PASSES,
    bindings: tuple[Binding, ...] = BINDINGS,
    *,
    anonymous: bool = False,
    issuer: Issuer | None = None,
    limits: tuple[Limit, ...] = (),
) -> None:
    access = AccessFile(anonymous=anonymous, passes=passes, grants=bindings, issuer=issuer, limits=limits)
    fresh = folder / "access.new"
    fresh.write_bytes(access_file.encode(access))
    fresh.replace(folder / "access.json")


def table(address: str) -> Table:
    """iris with two versions and an alias, a server of its own name, a second name, and rose; another namespace."""
    one, two, rose = Plan(servers=("default/iris-1",)), Plan(servers=("default/iris-2",)), Plan(servers=("default/r",))
    iris = Route(
        namespace="default", name="iris", version="2", plan=two, versions={"1": one, "2": two}, aliases={"prod": "1"}
    )
    return Table(
        servers=(
            Server(id="default/iris-1", model="iris", version="1", addresses=(address,)),
            Server(id="default/iris-2", model="iris", version="2", addresses=(address,)),
            Server(id="default/r", model="rose", version="1", addresses=(address,)),
        ),
        routes=(
            iris,
            Route(namespace="default", name="iris-1", version="1", model="iris", plan=one, versions={"1": one}),
            Route(namespace="default", name="iris-9", version="9", model="iris", plan=Plan(servers=())),
            Route(namespace="default", name="lily", version="2", model="iris", plan=two, versions={"1": one, "2": two},
                  aliases={"prod": "1"}),
            Route(namespace="default", name="rose", version="1", plan=rose, versions={"1": rose}),
            Route(namespace="other", name="iris", version="1", plan=rose, versions={"1": rose}),
        ),
    )  # fmt: skip


def ready(gateway: Gateway, name: str) -> bool:
    return see(gateway, "root", f"/{name}/ready").status == 200


def bearer(who: str) -> dict[str, Any]:
    return {"Authorization": f"Bearer {who}-token"} if who else {}


def predict(gateway: Gateway, who: str, place: str = "/iris", namespace: str = "") -> Response:
    return gateway.ask("POST", f"{namespace}/v2/models{place}/infer", body_of([1.0, 2.0]), **bearer(who))


def see(gateway: Gateway, who: str, place: str = "", namespace: str = "") -> Response:
    return gateway.ask("GET", f"{namespace}/v2/models{place}", **bearer(who))


def noted(folder: Path) -> list[Refusal]:
    files = sorted((folder / "refusals").glob("*.jsonl"))
    return [refusal_lines.parse_line(line) for file in files for line in file.read_bytes().splitlines()]
