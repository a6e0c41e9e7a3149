from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mizzen.engines.local.ports import PORT_RANGE, ReplicaPorts, list_ports
from mizzen.engines.local.process_specs import WorkloadPaths
from mizzen.errors import Unavailable
from mizzen.kinds.workload import ReplicaStatus
from mizzen.supervisor.data_dir import Home, write_json
from mizzen.supervisor.protocol import ProcessView, State
from mizzen.web.free_ports import is_free


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home.of(tmp_path)
    found.prepare()
    return found


@pytest.fixture
def taken() -> Iterator[int]:
    """A port where somebody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port: int = server.getsockname()[1]
        yield port


def told(address: str, index: int = 0) -> dict[int, ReplicaStatus]:
    return {index: ReplicaStatus.model_validate({"index": index, "state": "ready", "address": address})}


def view(place: WorkloadPaths, state: State) -> ProcessView:
    return ProcessView(place.key(0), state, "f")


def test_a_port_is_kept_and_no_other_replica_gets_it(home: Home) -> None:
    ports, one, other = ReplicaPorts(home), WorkloadPaths(home, "one"), WorkloadPaths(home, "other")
    first = dict(ports.assign(one, 2, {}))
    assert dict(ports.assign(one, 2, {})) == first
    assert len({*first.values(), *ports.assign(other, 3, {}).values()}) == 5
    assert set(first.values()) <= set(list_ports()) <= set(PORT_RANGE)


def test_a_new_engine_goes_by_the_record_of_what_runs_and_then_by_what_was_told(home: Home) -> None:
    place = WorkloadPaths(home, "uid")
    assert ports_of(home, told("http://127.0.0.1:4321")) == {0: 4321}
    write_json(home.processes / f"{place.key(0)}.json", {"spec": {"env": {"MIZZEN_PORT": "5432"}}})
    assert ports_of(home, told("http://127.0.0.1:4321")) == {0: 5432}
    assert 5432 not in ReplicaPorts(home, [5432, *list_ports()]).assign(WorkloadPaths(home, "else"), 1, {}).values()


@pytest.mark.parametrize(
    "address", ["", "unix:/x", "http://127.0.0.1:80", "http://127.0.0.1:70000", "http://10.0.0.1:4321", "x"]
)
def test_what_was_told_is_a_port_of_ours_or_nothing(home: Home, address: str) -> None:
    assert ports_of(home, told(address))[0] in PORT_RANGE


def test_one_that_was_told_and_is_not_wanted_has_its_port_until_it_is_gone(home: Home) -> None:
    ports, place = ReplicaPorts(home), WorkloadPaths(home, "uid")
    found = ports.assign(place, 1, told("http://127.0.0.1:4321", index=3))
    assert (set(found), found[3]) == ({0, 3}, 4321)
    ports.keep_only(place, (0,))
    assert found.keys() == {0}


def test_no_two_are_told_the_same_port(home: Home) -> None:
    ports = ReplicaPorts(home)
    ports.assign(WorkloadPaths(home, "one"), 1, told("http://127.0.0.1:4321"))
    assert ports.assign(WorkloadPaths(home, "other"), 1, told("http://127.0.0.1:4321")) != {0: 4321}


def test_a_port_that_somebody_else_has_is_left_unless_a_process_may_be_there(home: Home, taken: int) -> None:
    ports, place = ReplicaPorts(home), WorkloadPaths(home, "uid")
    found = ports.assign(place, 1, told(f"http://127.0.0.1:{taken}"))
    assert [ports.find_lost(place, 1, [view(place, state)]) for state in (State.RUNNING, State.STOPPING)] == [[], []]
    assert [ports.find_lost(place, 1, [view(place, state)]) for state in (State.WAITING, State.FAILED)] == [[0], [0]]
    assert ports.find_lost(place, 1, []) == [0]
    ports.reassign(place, [0])
    assert found[0] != taken
    assert ports.find_lost(place, 1, []) == []


def test_a_port_is_free_when_a_program_could_listen_there(taken: int) -> None:
    assert not is_free(taken)
    with closing(socket.create_server(("", 0))) as everywhere:
        port = everywhere.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            connection, _ = everywhere.accept()
            assert not is_free(port)
            connection.close()  # first, so that what is left of it is at this port
    assert is_free(port)


def test_when_all_are_taken_that_is_said(home: Home, taken: int) -> None:
    with pytest.raises(Unavailable, match=f"none of the ports {taken} to {taken} is free"):
        ReplicaPorts(home, [taken]).assign(WorkloadPaths(home, "uid"), 1, {})


def ports_of(home: Home, known: dict[int, ReplicaStatus]) -> dict[int, int]:
    return dict(ReplicaPorts(home).assign(WorkloadPaths(home, "uid"), 1, known))
