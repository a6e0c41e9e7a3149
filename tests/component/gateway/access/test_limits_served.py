"""Limits over real sockets: who is answered, who is told to wait, and in which words."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from mizzen.access.limits import Limit
from tests.support.gateway.guarded import Clock, permit
from tests.support.gateway.harness import Gateway, Response, body_of, infer_request, until

SLOW = "/v2/models/iris/infer?by=asgi"


def limited(folder: Path, *limits: Limit, anonymous: bool = False) -> None:
    permit(folder, limits=limits, anonymous=anonymous)


def asked(gateway: Gateway, who: str = "ann", path: str = "/v2/models/iris/infer") -> Response:
    body = b'{"instances": [[1.0]]}' if path.startswith("/v1") else body_of([1.0])
    return gateway.ask("POST", path, body, Authorization=f"Bearer {who}-token")


def ended(gateway: Gateway) -> None:
    gateway.stop()
    until(gateway.done.done)


def in_force(gateway: Gateway) -> None:
    """What was permitted last has been taken. Answers of who is limited tell so, of bob's, who is limited by `*`."""
    until(lambda: "ratelimit-limit" in asked(gateway, "root").headers, "the limits are in force")


ROOT = Limit(subject="root", per_second=1e6)


def test_beyond_the_rate_one_is_told_when_to_ask_again(guarded: Gateway, folder: Path) -> None:
    limited(folder, Limit(subject="ann", per_second=0.01, burst=3), ROOT)
    in_force(guarded)
    answers = [asked(guarded, path=path) for path in ("/v2/models/iris/infer", SLOW, "/v1/models/iris:predict")]
    assert [answer.headers["ratelimit-remaining"] for answer in answers] == ["2", "1", "0"]
    for path in ("/v2/models/iris/infer", SLOW, "/v1/models/iris:predict"):
        answer = asked(guarded, path=path)
        assert answer.status == 429
        assert "ann may send 0.01 requests a second, 3 at once; try again in" in answer.error
        assert 0 < int(answer.headers["retry-after"]) <= 100
        assert (answer.headers["ratelimit-limit"], answer.headers["ratelimit-remaining"]) == ("3", "0")
        assert answer.headers["mizzen-request-id"]
    told = guarded.ask("GET", "/metrics", b"", Authorization="Bearer root-token").body.decode()
    assert 'mizzen_refused_total{gateway="gateway-0",code="429"} 3' in told
    assert asked(guarded, "root").status == 200, "others are not held up"


def test_a_known_head_is_counted_each_time_it_comes(guarded: Gateway, folder: Path) -> None:
    limited(folder, Limit(subject="ann", per_second=0.01, burst=4), ROOT)
    in_force(guarded)
    with guarded.client() as client:
        codes = []
        for _ in range(6):
            client.send(infer_request([1.0], "iris", Authorization="Bearer ann-token"))
            codes.append(client.answer().status)
    assert codes == [200] * 4 + [429] * 2


def test_a_quota_holds_over_a_restart_and_for_all_tokens_of_a_name(
    guarded: Gateway, folder: Path, start_gateway: Callable[..., Gateway], clock: Clock
) -> None:
    limited(folder, Limit(subject="ann", per_day=5), ROOT)
    in_force(guarded)
    assert [asked(guarded).status for _ in range(3)] == [200] * 3
    ended(guarded)
    again = start_gateway(anonymous=False, wall=clock, name="gateway-1")
    in_force(again)
    assert [asked(again).status for _ in range(4)] == [200, 200, 429, 429]
    refused = asked(again)
    assert "ann has used all 5 predictions of this day (UTC)" in refused.error
    assert (refused.headers["ratelimit-limit"], refused.headers["ratelimit-remaining"]) == ("5", "0")
    clock.time += 86_400
    assert asked(again).status == 200, "tomorrow is another day"


def test_strangers_share_one_limit(guarded: Gateway, folder: Path, start_gateway: Callable[..., Gateway]) -> None:
    ended(guarded)
    limited(folder, Limit(subject="anonymous", per_second=0.01, burst=2), ROOT, anonymous=True)
    gateway = start_gateway(anonymous=True)
    in_force(gateway)
    assert [gateway.infer([1.0], "iris").status for _ in range(3)] == [200, 200, 429]


def test_many_at_once_are_counted_one_by_one(
    guarded: Gateway, folder: Path, start_gateway: Callable[..., Gateway], clock: Clock, grpc_listener: socket.socket
) -> None:
    other = start_gateway(anonymous=False, wall=clock, name="gateway-1", listener=grpc_listener)
    limited(folder, Limit(subject="ann", per_day=40), ROOT)
    until(lambda: other.ask("GET", "/v2/models/iris/ready", b"", Authorization="Bearer root-token").status == 200)
    for gateway in (guarded, other):
        in_force(gateway)
    codes: Counter[int] = Counter()

    def ask(gateway: Gateway) -> None:
        with gateway.client() as client:
            for _ in range(15):
                client.send(infer_request([1.0], "iris", Authorization="Bearer ann-token"))
                codes[client.answer().status] += 1

    threads = [threading.Thread(target=ask, args=(gateway,)) for gateway in (guarded, other) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes[200] <= 40
    assert codes[200] >= 40 - 2, "each gateway takes one by one when so few are left"
    assert codes[200] + codes[429] == 120
