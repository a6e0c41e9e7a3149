"""Several gateways as real processes: what was acknowledged counts exactly once, whoever is killed when."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mizzen.graph.bandits import BanditState
from mizzen.graph.table_types import Policy
from mizzen.selection import state_db
from mizzen.selection.cached_state import StateCache
from mizzen.selection.state_db import Quality

ARMS = ("a", "b", "c")

COMMON = """
import asyncio, random, sys
from pathlib import Path
from mizzen.graph.table_types import Policy
from mizzen.selection.state_db import Credit, FeedbackEntry, Score
from mizzen.selection.feedback_writer import FeedbackWriter

folder, ARMS = Path(sys.argv[1]), ("a", "b", "c")

def desk():
    post = asyncio.get_running_loop().call_soon_threadsafe
    return FeedbackWriter(folder / "state.db", folder / "run" / "selection", random.Random(), post=post)

def given(uid, id, number, policy, arm, reward):
    credits = [Credit("n", policy, ARMS, arm, 0.5, "")]
    return FeedbackEntry(uid, id, str(reward).encode(), reward, float(number), credits,
                 [Score(arm, "1", reward, None)])
"""

GIVER = (
    COMMON
    + """
name, first, last = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
policy = Policy(name="ucb1")

async def main():
    loop, at = asyncio.get_running_loop(), desk()
    def give(number):
        told = loop.create_future()
        id = f"all-{number}" if number % 5 == 0 else f"{name}-{number}"  # some are given by all
        def done(outcome):
            print(number, id, outcome, flush=True)
            told.set_result(None)
        at.submit(given("u1", id, number, policy, ARMS[number % 3], number % 8 / 8), done)
        return told
    for number in range(first, last, 4):
        sys.stdin.readline()  # a word for each four
        await asyncio.gather(*(give(each) for each in range(number, min(number + 4, last))))
    at.close()

asyncio.run(main())
"""
)

TELLER = (
    COMMON
    + """
policy = Policy(name="egreedy", epsilon=0.0)

async def main():
    loop, at = asyncio.get_running_loop(), desk()
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        id, arm, reward = line.split()
        told = loop.create_future()
        at.submit(given("u2", id, 0, policy, arm, float(reward)), told.set_result)
        print(await told, flush=True)
    at.close()

asyncio.run(main())
"""
)

FULL = (
    COMMON
    + """
import resource
policy = Policy(name="ucb1")

async def main():
    loop, at = asyncio.get_running_loop(), desk()
    async def give(number):
        told = loop.create_future()
        at.submit(given("u3", f"{number}", number, policy, "a", 1.0), told.set_result)
        outcome = await told
        return outcome if isinstance(outcome, str) else type(outcome).__name__
    print(await give(0))
    sizes = [path.stat().st_size for path in folder.glob("state.db*")]
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes) + 9000, resource.RLIM_INFINITY))
    outcomes = [await give(number) for number in range(1, 40)]
    failed = [number for number, outcome in enumerate(outcomes, 1) if outcome != "counted"]
    print(set(outcomes) == {"counted", "Unavailable"})
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    again = {await give(number) for number in failed}
    print(again <= {"counted", "repeated"})
    at.close()

asyncio.run(main())
"""
)


@contextlib.contextmanager
def started(program: str, *words: object) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield child
    finally:
        end(child)


def end(child: subprocess.Popen[str]) -> list[str]:
    """What it still said, when it is killed."""
    assert child.stdin is not None
    assert child.stdout is not None
    if child.stdout.closed:
        return []
    if child.poll() is None:
        child.send_signal(signal.SIGKILL)
    child.wait()
    with contextlib.suppress(BrokenPipeError):
        child.stdin.close()
    with child.stdout:
        return [line for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")]


def kept(path: Path, uid: str) -> tuple[set[str], BanditState, list[Quality]]:
    """Which feedback is stored, and what was learnt of it."""
    connection = state_db.open_db(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    ids = {str(id_) for (id_,) in connection.execute("SELECT id FROM given WHERE uid = ?", (uid,))}
    state, quality = state_db.read_state(connection, uid, "n", ""), state_db.list_qualities(connection, uid)
    connection.close()
    assert state is not None
    return ids, state, quality


def go_on(child: subprocess.Popen[str], times: int) -> None:
    assert child.stdin is not None
    child.stdin.write("\n" * times)
    child.stdin.flush()


def told(lines: list[str]) -> list[tuple[int, str, str]]:
    return [(int(number), id_, outcome) for number, id_, outcome in map(str.split, lines)]


def test_killed_gateways_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    rng, total = random.Random(3), 160
    reached = dict.fromkeys(("g0", "g1", "g2", "g3"), 0)
    acknowledged: dict[str, int] = {}
    outcomes: Counter[str] = Counter()
    for last_round in (False, False, True):
        with contextlib.ExitStack() as stack:
            # Each goes on some way before what was acknowledged last, so that it gives it again.
            children = {
                name: stack.enter_context(started(GIVER, tmp_path, name, max(0, number - 6), total))
                for name, number in reached.items()
            }
            for child in children.values():
                go_on(child, total if last_round else 6)  # all at once
            for name, child in children.items():
                assert child.stdout is not None
                if last_round:
                    lines = child.stdout.readlines()
                    assert child.wait() == 0
                else:
                    go_on(child, 6)
                    lines = [child.stdout.readline() for _ in range(rng.randrange(5, 44))]
                    lines += end(child)  # in the midst of it
                for number, id_, outcome in told(lines):
                    acknowledged[id_] = number
                    outcomes[outcome] += 1
                    reached[name] = max(reached[name], number + 1)
        stored, state, quality = kept(tmp_path / state_db.FILE, "u1")
        assert stored >= acknowledged.keys()
        assert sum(arm.count for arm in state.arms.values()) == len(stored), "the counts are those of what is stored"
        assert last_round == (min(reached.values()) == total)
    assert stored == acknowledged.keys()
    assert outcomes["counted"] <= len(stored) < outcomes.total(), "what was not told before was repeated"
    assert outcomes["different"] == 0
    for name, arm in state.arms.items():
        numbers = [number for number in acknowledged.values() if ARMS[number % 3] == name]
        assert (arm.count, arm.total) == (len(numbers), sum(number % 8 / 8 for number in numbers))
    assert [(one.node, one.rewards, one.reward_sum) for one in quality] == [
        (name, arm.count, arm.total) for name, arm in sorted(state.arms.items())
    ]


def test_what_one_gateway_acknowledges_is_in_the_next_choice_of_another(tmp_path: Path) -> None:
    rng, totals = random.Random(4), {arm: [0, 0.0] for arm in ARMS}
    view = StateCache(tmp_path / state_db.FILE, tmp_path / "run" / "selection", random.Random(1))
    selector = view.selector_for("u2", "n", Policy(name="egreedy", epsilon=0.0), ARMS)
    with started(TELLER, tmp_path) as one, started(TELLER, tmp_path) as other:
        for child in (one, other):
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        leaders = set()
        for number in range(120):
            child, arm, reward = rng.choice((one, other)), rng.choice(ARMS), rng.randrange(1, 65) / 64
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(f"{number} {arm} {reward}\n")
            child.stdin.flush()
            assert child.stdout.readline() == "counted\n"
            totals[arm][0] += 1
            totals[arm][1] += reward
            means = {name: total / count for name, (count, total) in totals.items() if count}
            chosen = selector.choose("")[0]
            assert means.get(chosen) == max(means.values()), number
            leaders.add(chosen)
    assert len(leaders) > 1, "the best has changed, and was followed"
    view.close()


def test_new_gateways_that_open_a_new_file_at_once_all_succeed(tmp_path: Path) -> None:
    program = (
        "import random, sys; from pathlib import Path; from mizzen.graph.table_types import Policy;"
        "from mizzen.selection.cached_state import StateCache; sys.stdin.readline();"
        "cache = StateCache(Path(sys.argv[1]) / 'state.db', Path(sys.argv[1]) / 'run' / 'selection', random.Random());"
        "print(cache.selector_for('u1', 'n', Policy(name='egreedy'), ('a', 'b', 'c', 'd', 'e')).choose('')[0])"
    )
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(started(program, tmp_path)) for _ in range(4)]
        for child in children:
            go_on(child, 1)
        chosen = {child.stdout.readline() for child in children if child.stdout is not None}
    assert len(chosen) == 1
    assert chosen <= {f"{arm}\n" for arm in "abcde"}


def test_a_disk_that_is_full_refuses_feedback_and_later_takes_it_once(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["counted", "True", "True"], done
    assert kept(tmp_path / state_db.FILE, "u3")[1].arms["a"].count == 40
