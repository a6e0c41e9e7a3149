"""Who takes over is connected to before those who answer are let go, and the plane is told when they are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mizzen.gateway.queueing.call import LOST
from mizzen.protocol.gateway_files import table_acks
from tests.support.gateway.harness import Gateway, Runtime, infer_request, publish, table_of, until
from tests.support.gateway.virtual import World


@pytest.fixture
def other(folder: Path) -> Iterator[Runtime]:
    """Not there yet."""
    runtime = Runtime(str(folder / "other.sock"))
    runtime.down()
    yield runtime
    runtime.close()


def serial(folder: Path) -> int:
    """Of the Table that is in force, as the plane is told."""
    return max((each.serial for each in table_acks.list_alive(folder / "tables")), default=0)


@pytest.mark.parametrize("version", ["1", "2"], ids=["the same version", "another version"])
def test_those_who_answer_go_on_until_the_new_one_has_said_hello(
    gateway: Gateway, folder: Path, runtime: Runtime, other: Runtime, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mizzen.gateway.table_loader.MAX_OVERLAP_SECONDS", 1e6)
    assert serial(folder) == 1
    publish(folder / "table.json", table_of(other.address, serial=2, version=version))
    with Asking(gateway) as asking:
        asking.more(200)
        assert serial(folder) == 1
        other.up()
        until(lambda: serial(folder) == 2, "the new table is in force")
        until(lambda: runtime.connections == 0)
        before = other.items
        asking.more(200)
        assert other.items >= before + 199, "all but one that it may have had before"
    assert runtime.items + other.items == asking.asked, "nothing was asked twice"
    assert gateway.infer([1.0]).json["model_version"] == version


def test_one_that_does_not_come_is_waited_for_no_longer_than_a_while(
    gateway: Gateway, folder: Path, runtime: Runtime, other: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mizzen.gateway.table_loader.MAX_OVERLAP_SECONDS", 0.2)
    publish(folder / "table.json", table_of(other.address, serial=2, version="2"))
    until(lambda: serial(folder) == 2, "the new table is in force all the same")
    until(lambda: runtime.connections == 0)
    with gateway.client() as client:
        client.send(infer_request([5.0]))  # which waits for it
        other.up()
        assert client.answer().sums == [5.0]


def test_a_table_upon_one_that_waits_takes_its_place(
    gateway: Gateway, folder: Path, runtime: Runtime, other: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mizzen.gateway.table_loader.MAX_OVERLAP_SECONDS", 1e6)
    publish(folder / "table.json", table_of(other.address, serial=2, version="2"))
    until(lambda: b'version="2"' in gateway.ask("GET", "/metrics").body, "it has been looked at")
    publish(folder / "table.json", table_of(runtime.address, serial=3))
    until(lambda: serial(folder) == 3, "it keeps who answers, so it need not wait")
    other.up()
    assert gateway.infer([1.0]).json["model_version"] == "1"
    assert other.connections == 0
    assert b'version="2"' not in gateway.ask("GET", "/metrics").body


def test_more_replicas_are_not_waited_for(
    gateway: Gateway, folder: Path, runtime: Runtime, other: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mizzen.gateway.table_loader.MAX_OVERLAP_SECONDS", 1e6)
    publish(folder / "table.json", table_of(runtime.address, other.address, serial=2))
    until(lambda: serial(folder) == 2)
    other.up()
    until(lambda: other.connections == 1)
    publish(folder / "table.json", table_of(other.address, serial=3))
    until(lambda: serial(folder) == 3, "it answers already")


def test_a_gateway_that_is_stopped_is_not_waited_for(start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish(folder / "table.json", table_of(serial=7))
    gateway = start_gateway()
    until(lambda: serial(folder) == 7)
    gateway.stop()
    gateway.done.result(60)
    assert table_acks.list_alive(folder / "tables") == []


@pytest.mark.parametrize("idempotent", [True, False])
def test_what_a_lost_process_of_an_old_version_owed_is_asked_of_the_new_one(idempotent: bool) -> None:
    world = World(idempotent=idempotent)
    hand, call = world.hand(), world.ask("a")
    world.turn()
    assert hand.batch == [call]
    world.switch().on_disconnect(hand)
    successor = world.hand()
    world.turn()
    if idempotent:
        assert successor.batch == [call]
        assert call.retry_alone
    else:
        assert call.code == LOST


class Asking:
    """Asks one thing after the other in a thread, and sees that each is answered rightly."""

    def __init__(self, gateway: Gateway) -> None:
        self.asked = 0
        self._client = gateway.client()
        self._over = False
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join()
        self._client.socket.close()
        if self._fault is not None:
            raise self._fault

    def more(self, count: int) -> None:
        least = self.asked + count
        until(lambda: self.asked >= least or self._fault, "answers flow")

    def _ask(self) -> None:
        try:
            while not self._over:
                self._client.send(infer_request([float(self.asked)]))
                assert self._client.answer().sums == [float(self.asked)]
                self.asked += 1
        except BaseException as fault:  # noqa: BLE001 - raised where somebody looks
            self._fault = fault
