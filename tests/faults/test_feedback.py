"""Feedback while gateways, the plane and the supervisor are killed: what is stored is exactly what was acknowledged,
credited to what served."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import psutil
import pytest

from mizzen.selection import state_db
from mizzen.selection.records.lookup import find
from mizzen.selection.records.segments import SUFFIX
from tests.support import disks, planes, rewarding
from tests.support.rewarding import ARMS, Answered, Book, Habits, Line

POLICIES: dict[str, dict[str, Any]] = {"greedy": {"egreedy": 0.5}, "exp": {"exp3": {}}}
GATEWAYS = tuple(f"gateway-{number}" for number in range(4))
VICTIMS = (*GATEWAYS, "plane")
ROUNDS = 30
PAGE = 4096

Tally = dict[tuple[str, str], tuple[int, float]]
"""Count and sum of each arm of each graph."""


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[planes.TestPlane]:
    with planes.running_plane(tmp_path / "data", "--gateways", str(len(GATEWAYS))) as running:
        rewarding.serve(running, POLICIES)
        yield running


@pytest.mark.parametrize("seed", [1, 2])
def test_counts_are_what_was_acknowledged(plane: planes.TestPlane, seed: int) -> None:
    """Feedback whose answer is lost is given again until it is acknowledged, and then it counts once."""
    with rewarding.calling(plane.inference_url, tuple(POLICIES), Habits(seed)) as book:
        killed = kill(plane, book, Random(seed))
    check_answers(book, killed)
    assert all(each.acknowledged for each in book.answered)
    assert stored(plane) == tally(book.answered)
    for each in book.answered:
        assert each.counted <= 1, each
        assert each.counted == 1 or each.tries > each.acknowledged, f"it was counted, and nobody was told: {each}"
    check_records(plane, book.answered)
    give_again(plane, book.answered)
    assert stored(plane) == scored(plane) == tally(book.answered), "what was given twice counts once"


def test_what_is_lost_and_not_given_again_counts_once_or_never(plane: planes.TestPlane) -> None:
    seed = 3
    with rewarding.calling(plane.inference_url, tuple(POLICIES), Habits(seed, again=False)) as book:
        killed = kill(plane, book, Random(seed))
    check_answers(book, killed)
    before, least, most = stored(plane), tally(book.acknowledged), tally(book.answered)
    for arm, (count, total) in most.items():
        assert least.get(arm, (0, 0.0)) <= before[arm] <= (count, total)
    check_records(plane, book.answered)
    give_again(plane, book.acknowledged)
    assert stored(plane) == before, "every one that was acknowledged is in"

    # Which of the others are in is told when they are given again: with them, it is all that was sent.
    line = Line(plane.inference_url)
    lost = [each for each in book.answered if not each.acknowledged]
    added = [each for each in lost if line.post(f"/v2/models/{each.graph}/feedback", each.body).said["counted"]]
    line.close()
    sys.stderr.write(f"of {len(lost)} that were lost, {len(lost) - len(added)} had been written\n")
    ids = {(each.graph, each.id) for each in added}
    assert before == tally(each for each in book.answered if (each.graph, each.id) not in ids)
    assert stored(plane) == most


def test_records_of_which_pages_are_missing_credit_nobody_else(plane: planes.TestPlane) -> None:
    """A power loss leaves out any pages that were not written back. A record is whole then, or unknown."""
    with rewarding.calling(plane.inference_url, tuple(POLICIES), Habits(4)) as given:
        planes.wait_until(lambda: len(given.acknowledged) > 300, "records are there")
    with rewarding.calling(plane.inference_url, tuple(POLICIES), Habits(5, feedback=False)) as book:
        planes.wait_until(lambda: len(book.answered) > 300, "records are there that had no feedback")
    before = stored(plane)
    assert before == tally(given.answered)
    plane.cli("down")
    rng, missing = Random(6), 0
    for path in sorted((plane.data_dir / "records").rglob(f"*{SUFFIX}")):
        missing += blank(path, rng)
    assert missing
    plane.cli("up", *planes.FREE_PORTS, "--gateways", str(len(GATEWAYS)))
    planes.wait_until(lambda: answers(plane), "it serves again")

    line, found = Line(plane.inference_url), set()
    for each in book.answered:
        reply = line.post(f"/v2/models/{each.graph}/feedback", each.body)
        if reply.code == 200:
            assert reply.said["counted"] is True
            found.add(each.id)
        else:
            assert reply.code == 404, reply.said
            assert not each.with_routing, "what the answer said is enough"
    line.close()
    assert 0 < len(found) < len(book.answered)
    counted = [*given.answered, *(each for each in book.answered if each.id in found)]
    assert stored(plane) == tally(counted)


def test_a_full_disk_acknowledges_nothing_that_it_does_not_keep(tmp_path: Path) -> None:
    with disks.small_disk(tmp_path / "disk", 160 << 20) as disk:
        (disk / "data").mkdir()
        (disk / "data" / "settings.toml").write_text("disk_low_bytes = 0\ndisk_critical_bytes = 0\n")
        ballast = disks.Ballast(disk)
        with planes.running_plane(disk / "data", "--gateways", "2") as plane:
            rewarding.serve(plane, POLICIES)
            with rewarding.calling(plane.inference_url, tuple(POLICIES), Habits(7)) as book:
                planes.wait_until(lambda: len(book.acknowledged) > 100, "feedback flows")
                ballast.leave(0)
                # What was allocated before is used up first.
                planes.wait_until(lambda: len(book.refused) > 20, "feedback is refused")
                predicted = len(book.answered)
                planes.wait_until(lambda: len(book.answered) > predicted + 200, "predictions go on")
            assert book.faults == []
            assert book.losses == []
            assert {code for code, _ in book.refused} == {503}
            assert all("feedback cannot be written" in text for _, text in book.refused)
            assert stored(plane) == tally(book.acknowledged)

            ballast.leave(60 << 20)
            line = Line(plane.inference_url)
            for each in book.answered:
                # Where no record could be kept, what the answer said is all that is known.
                body = {**each.body, "routing": each.routing}
                reply = line.post(f"/v2/models/{each.graph}/feedback", body)
                assert reply.code == 200, reply.said
                assert reply.said["counted"] is not bool(each.acknowledged)
            line.close()
            assert stored(plane) == tally(book.answered)


def kill(plane: planes.TestPlane, book: Book, rng: Random) -> list[float]:
    """Whom and when the generator says, one to three at a time, once the supervisor, too. Says when a gateway was."""
    killed: list[float] = []
    counts: Counter[str] = Counter()
    supervisor_in = rng.randrange(5, ROUNDS - 5)
    for number in range(ROUNDS):
        progress(book, rng.randint(5, 60))
        if number == supervisor_in:
            end_supervisor(plane)
            counts["supervisor"] += 1
        for victim in rng.sample(VICTIMS, rng.choice((1, 1, 2, 3))):
            for pid in plane.pids(victim):  # none, while it is being brought back
                if victim != "plane":
                    killed.append(time.monotonic())
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    counts["plane" if victim == "plane" else "gateway"] += 1
    for victim in VICTIMS:
        plane.pid(victim)
    progress(book, 60)
    sys.stderr.write(f"killed: {dict(counts)}\n")
    assert counts["gateway"] >= ROUNDS // 2
    assert counts["plane"]
    return killed


def progress(book: Book, wanted: int) -> None:
    seen = len(book.acknowledged)
    planes.wait_until(lambda: len(book.acknowledged) >= seen + wanted or book.faults, "feedback is acknowledged")
    assert book.faults == []


def end_supervisor(plane: planes.TestPlane) -> None:
    """Returns when another is there: somebody must be left who brings it back."""
    old = plane.status()["supervisor_pid"]
    psutil.Process(old).kill()

    def back() -> bool:
        said = plane.cli("status", "-o", "json", check=False)
        return said.returncode == 0 and plane.status()["supervisor_pid"] not in (old, None)

    planes.wait_until(back, "there is a supervisor again")


def check_answers(book: Book, killed: Iterable[float]) -> None:
    """Predictions went on: only those failed that were in a process that was killed."""
    assert book.faults == []
    assert book.refused == []
    for loss in book.losses:
        assert any(loss.connected <= moment <= loss.lost for moment in killed), loss


def check_records(plane: planes.TestPlane, answered: Iterable[Answered]) -> None:
    """Whoever was answered has a record, though its gateway may have been killed, and it says the same."""
    uids = uids_of(plane)
    for each in answered:
        found = find(plane.data_dir / "records", uids[each.graph], each.id.encode())
        assert found is not None, each
        [(node, arm, likely)] = found.what.decisions
        assert each.routing == f"{node}={arm}" + (f"@{likely:.6g}" if each.graph == "exp" else "")
        assert (arm, "1") in found.what.ran


def give_again(plane: planes.TestPlane, acknowledged: Iterable[Answered]) -> None:
    line = Line(plane.inference_url)
    for each in acknowledged:
        path = f"/v2/models/{each.graph}/feedback"
        reply = line.post(path, each.body)
        assert (reply.code, reply.said["counted"]) == (200, False), each
        reply = line.post(path, {**each.body, "reward": (each.reward + 0.5) % 1})
        assert reply.code == 409, reply.said
    line.close()


def stored(plane: planes.TestPlane) -> Tally:
    """By state.db."""
    found: Tally = {}
    with contextlib.closing(state_db.open_db(plane.data_dir / state_db.FILE)) as connection:
        for graph, uid in uids_of(plane).items():
            [node] = state_db.list_states(connection, uid)
            assert node.node == "a"
            assert set(node.state.arms) == set(ARMS)
            found |= {(graph, name): (arm.count, arm.total) for name, arm in node.state.arms.items() if arm.count}
    return found


def scored(plane: planes.TestPlane) -> Tally:
    """How well the models of arms did: counted beside the arms, for all whose record was found."""
    with contextlib.closing(state_db.open_db(plane.data_dir / state_db.FILE)) as connection:
        return {
            (graph, each.node): (each.rewards, each.reward_sum)
            for graph, uid in uids_of(plane).items()
            for each in state_db.list_qualities(connection, uid)
            if each.node in ARMS
        }


def tally(given: Iterable[Answered]) -> Tally:
    counts: Counter[tuple[str, str]] = Counter()
    sums: Counter[tuple[str, str]] = Counter()
    for each in given:
        counts[each.graph, each.arm] += 1
        sums[each.graph, each.arm] += each.reward  # type: ignore[assignment]
    return {key: (count, sums[key]) for key, count in counts.items()}


def uids_of(plane: planes.TestPlane) -> dict[str, str]:
    url = f"{plane.control_url}/apis/mizzen.dev/v1alpha1/namespaces/default/mlgraphs"
    items = httpx2.get(url, headers={"authorization": f"Bearer {plane.token()}"}).json()["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}


def blank(path: Path, rng: Random) -> int:
    """A third of its pages, of those that were ever written: as they were when the file was made."""
    pages = 0
    with path.open("r+b") as file:
        for offset in range(PAGE, path.stat().st_size, PAGE):
            file.seek(offset)
            if any(file.read(PAGE)) and rng.random() < 1 / 3:
                file.seek(offset)
                file.write(bytes(PAGE))
                pages += 1
    return pages


def answers(plane: planes.TestPlane) -> bool:
    return all(httpx2.get(f"{plane.inference_url}/v2/models/{name}/ready").status_code == 200 for name in POLICIES)
