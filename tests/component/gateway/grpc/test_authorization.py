"""Who may ask what over gRPC: as over REST, and told in the same words."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from mizzen.access.limits import Limit
from tests.support import grpcs
from tests.support.gateway import guarded as people
from tests.support.gateway.guarded import Clock, noted, permit, predict, see, table
from tests.support.gateway.harness import Gateway, publish, until
from tests.support.gateway.models import ModelRuntime
from tests.support.grpcs import SERVICE, Caller, outputs_of, request_of
from tests.support.http2 import Raw, message


@pytest.fixture
def walled(
    folder: Path,
    counted: ModelRuntime,
    start_gateway: Callable[..., Gateway],
    grpc_listener: socket.socket,
    clock: Clock,
) -> Gateway:
    """A gateway that serves people with rights only."""
    publish(folder / "table.json", table(counted.address))
    permit(folder)
    gateway = start_gateway(anonymous=False, wall=clock, grpc=grpc_listener, logged="all")
    for name in ("iris", "rose"):
        until(lambda name=name: people.ready(gateway, name), f"{name} is ready")  # type: ignore[misc]
    return gateway


def by(call: Caller, who: str, **more: str) -> Caller:
    return call.as_(**({"authorization": f"Bearer {who}-token"} if who else {}), **more)


WHO = ("", "root", "ann", "bob", "eve", "nobody")


def ended(ask: Callable[[], object]) -> tuple[str, str]:
    try:
        ask()
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", ""


CODES = {200: "OK", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}


def test_the_same_people_may_predict(walled: Gateway, call: Caller) -> None:
    for who in WHO:
        for name, version in (("iris", ""), ("iris", "prod"), ("iris", "1"), ("rose", ""), ("none", "")):
            place = f"/{name}" + (f"/versions/{version}" if version else "")
            rest = predict(walled, who, place)
            message = request_of(name, [[1, 2]], "x", model_version=version)
            code, words = ended(lambda who=who, message=message: by(call, who).infer(message))  # type: ignore[misc]
            assert (code, words) == (CODES[rest.status], "" if rest.status == 200 else rest.error), (who, place)


def test_one_limit_holds_for_both_doors(walled: Gateway, call: Caller, folder: Path) -> None:
    ann, message = by(call, "ann"), request_of("iris", [[1, 2]], "x")
    permit(folder, limits=(Limit(subject="ann", per_second=0.001, burst=4),))
    until(lambda: "ratelimit-limit" in predict(walled, "ann", "/iris").headers, "the limit is in force")
    assert [ended(lambda: ann.infer(message))[0] for _ in range(3)] == ["OK"] * 3
    code, words = ended(lambda: ann.infer(message))
    assert (code, words.partition(";")[0]) == ("RESOURCE_EXHAUSTED", "ann may send 0.001 requests a second, 4 at once")
    assert predict(walled, "ann", "/iris").status == 429
    assert ended(lambda: by(call, "root").infer(message))[0] == "OK"


def test_what_is_chosen_for_the_audit_says_who_asked(
    folder: Path, start_grpc: Callable[..., Gateway], call: Caller
) -> None:
    start_grpc(sampled=1.0)
    answer = call.infer(request_of("m", [[1, 2]], "x"))
    (entry,) = until(lambda: noted(folder), "it is written down")
    assert (entry.allowed, entry.actor, entry.name, entry.code) == (True, "anonymous", "m", 200)
    assert f"request {answer.id}, in " in entry.reason


def test_the_same_people_may_see(walled: Gateway, call: Caller) -> None:
    for who in WHO:
        for name in ("iris", "rose", "none"):
            rest = see(walled, who, f"/{name}")
            asked = lambda who=who, name=name: by(call, who).method("ModelMetadata")(name=name)  # noqa: E731
            assert ended(asked)[0] == CODES[rest.status]
            assert ended(lambda who=who, name=name: by(call, who).check(name))[0] == CODES[rest.status]  # type: ignore[misc]
        server = walled.ask("GET", "/v2", **people.bearer(who))
        assert ended(lambda who=who: by(call, who).method("ServerMetadata")())[0] == CODES[server.status]  # type: ignore[misc]
        assert by(call, who).method("ServerLive")().live
        assert by(call, who).check().status == 1


def test_refusals_are_written_down_and_counted(walled: Gateway, call: Caller, folder: Path) -> None:
    eve = by(call, "eve")
    before = walled.ask("GET", "/metrics", **people.bearer("root")).body.decode()
    assert ended(lambda: eve.infer(request_of("iris", [[1, 2]], "x")))[0] == "PERMISSION_DENIED"
    [refusal] = [each for each in noted(folder) if each.actor == "eve"]
    assert (refusal.verb, refusal.name, refusal.path) == ("predict", "iris", f"/{SERVICE}/ModelInfer")
    after = walled.ask("GET", "/metrics", **people.bearer("root")).body.decode()
    assert 'mizzen_refused_total{gateway="gateway-0",code="403"} 1' in after
    assert 'mizzen_refused_total{gateway="gateway-0",code="403"}' not in before


def test_a_token_that_ends_opens_nothing_more(walled: Gateway, call: Caller, folder: Path, clock: Clock) -> None:
    permit(folder, (*people.PASSES, people.token("temp", admin=True, expires=clock.time + 60)))
    temp = by(call, "temp")
    until(lambda: ended(lambda: temp.infer(request_of("iris", [[1, 2]], "x")))[0] == "OK", "it is known")
    clock.time += 61
    code, words = ended(lambda: temp.infer(request_of("iris", [[1, 2]], "x")))
    assert code == "UNAUTHENTICATED"
    assert "the token has expired" in words


def test_other_namespaces_are_named_in_the_metadata(walled: Gateway, call: Caller) -> None:
    other = by(call, "root", mizzen_namespace="other")
    assert outputs_of(other.infer(request_of("iris", [[1, 2]], "x")))["sum"].tolist() == [3.0]
    assert [(model.name, model.version) for model in other.method("RepositoryIndex")().models] == [("iris", "1")]
    assert ended(lambda: other.infer(request_of("rose", [[1, 2]], "x"))) == (
        "NOT_FOUND", "no model 'rose' in namespace 'other'",
    )  # fmt: skip


def test_who_may_call_nothing_is_not_listened_to_for_long(walled: Gateway, call: Caller) -> None:
    large = request_of("iris", [[1.0, 2.0]] * 60_000, "x")
    for who, code in (("", "UNAUTHENTICATED"), ("nobody", "UNAUTHENTICATED")):
        assert ended(lambda who=who: by(call, who).infer(large))[0] == code  # type: ignore[misc]


@pytest.mark.parametrize("method", ["/grpc.health.v1.Health/Check", f"/{SERVICE}/ServerLive"])
def test_what_needs_no_token_needs_none_in_two_frames_either(walled: Gateway, method: str) -> None:
    with Raw(walled.grpc_port) as client:
        client.open(1, method)
        client.bring(1, message(b""), end=True)
        assert client.code(1) == 0


@pytest.mark.parametrize("rows", [1, 5000])
def test_refusals_are_written_down_however_a_message_is_cut(walled: Gateway, folder: Path, rows: int) -> None:
    with Raw(walled.grpc_port) as client:
        client.open(1, f"/{SERVICE}/ModelInfer", (b"authorization", b"Bearer guessed"))
        client.bring(1, message(request_of("iris", [[1, 2]] * rows, "x").SerializeToString()), end=True)
        assert client.code(1) == 16
    [refusal] = noted(folder)
    assert (refusal.verb, refusal.path) == ("authenticate", f"/{SERVICE}/ModelInfer")


def test_a_stream_is_only_for_who_may_call_something(walled: Gateway, folder: Path) -> None:
    with Raw(walled.grpc_port) as client:
        client.open(1, f"/{SERVICE}/ModelStreamInfer")
        assert client.code(1) == 16
        client.open(3, f"/{SERVICE}/ModelStreamInfer", (b"authorization", b"Bearer ann-token"))
        client.bring(3, message(request_of("iris", [[1, 2]], "x").SerializeToString()), end=True)
        assert client.code(3) == 0
    assert [(each.actor, each.path) for each in noted(folder)] == [("anonymous", f"/{SERVICE}/ModelStreamInfer")]


def test_reflection_is_for_who_may_read_the_plane(walled: Gateway, call: Caller) -> None:
    def listed(who: str) -> str:
        caller = by(call, who)
        method = caller.channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        return ended(lambda: list(method(iter([b"\x3a\x00"]), metadata=caller.metadata, timeout=60)))[0]

    assert (listed(""), listed("root")) == ("UNAUTHENTICATED", "OK")


@pytest.fixture
def elsewhere(both: Gateway) -> Iterator[Caller]:
    """Somebody who reaches this machine by another name."""
    options = [("grpc.default_authority", "evil.example"), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"127.0.0.1:{both.grpc_port}", options) as channel:
        yield Caller(channel)


def test_on_loopback_only_this_machine_may_ask(both: Gateway, elsewhere: Caller, folder: Path) -> None:
    code, words = ended(lambda: elsewhere.infer(request_of("m", [[1, 2]], "x")))
    assert code == "PERMISSION_DENIED"
    assert words.startswith("Host must be loopback and Origin the same: only this machine, and pages that")
    assert len(noted(folder)) == 1
    with grpcs.calling(f"127.0.0.1:{both.grpc_port}", origin="http://evil.example") as page:
        assert ended(page.method("ServerLive"))[0] == "PERMISSION_DENIED"


def test_marks_of_the_caller_are_in_answer_log_and_runtime(both: Gateway, call: Caller, counted: ModelRuntime) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    marked = call.as_(traceparent=trace, mizzen_request_id="mine")
    method = marked.channel.unary_unary(f"/{SERVICE}/ModelInfer")
    _, done = method.with_call(request_of("m", [[1, 2]], "x").SerializeToString(), metadata=marked.metadata, timeout=60)
    assert ("mizzen-request-id", "mine") in [tuple(pair) for pair in done.initial_metadata()]
    assert counted.told[-1] == {} or counted.told[-1]["traces"][0][1] == trace
    lines = until(lambda: [line for line in both.access_log.read_text().splitlines() if "ModelInfer" in line])
    line = json.loads(lines[0])
    assert (line["request_id"], line["trace_id"], line["model"], line["version"], line["code"]) == (
        "mine", "0af7651916cd43dd8448eb211c80319c", "m", "1", 200,
    )  # fmt: skip
