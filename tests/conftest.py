from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from httpx2._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import settings

from tests.support import commands, run_folder
from tests.support.examples import examples
from tests.support.golden import Golden

# How long an example takes says how busy the machine is, and nothing of what is tested.
settings.register_profile("patient", deadline=None, max_examples=examples())
settings.load_profile("patient")

# Five seconds, where nobody says otherwise, are not enough for an answer on a machine that does much else.
for part in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, part, 60.0)

# A shell without job control starts background jobs with Ctrl-C ignored, which children would inherit. Tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

FOLDER = pytest.StashKey[Path]()

SLOW = {
    "tests/scenario/test_usage.py": 40,
    "tests/scenario/test_start.py": 50,
    "tests/scenario/test_permissions.py": 20,
    "tests/scenario/test_graph_failures.py": 15,
    "tests/scenario/test_graph_feedback.py": 15,
    "tests/scenario/test_graph_changes.py": 10,
    "tests/scenario/test_graph_routing.py": 10,
    "tests/scenario/test_graphs.py": 10,
    "tests/docs/test_seeds.py": 20,
    "tests/scenario/test_deploy.py": 20,
    "tests/scenario/test_environments.py": 20,
    "tests/scenario/test_tls.py": 20,
    "tests/scenario/test_own_rows.py": 20,
    "tests/scenario/test_events.py": 20,
    "tests/scenario/test_manifests.py": 20,
    "tests/scenario/test_reload.py": 15,
    "tests/scenario/test_observed.py": 15,
    "tests/component/engines/test_environments.py": 20,
    "tests/component/server/auth/test_authentication.py": 60,
    "tests/component/server/versions/test_disconnects.py": 12,
    "tests/component/bench": 15,
    "tests/contract/test_engine": 20,
    "tests/scenario/test_training.py": 100,
    "tests/component/runner": 55,
    "tests/contract/test_buckets.py": 25,
    "tests/contract/test_blob_s3.py": 20,
    "tests/contract/test_blob_documents.py": 10,
    "tests/scenario/test_trust.py": 10,
    "tests/scenario/test_sdk.py": 10,
    "tests/scenario/test_change_in_place.py": 10,
    "tests/scenario/test_batches.py": 10,
    "tests/scenario/test_malformed.py": 10,
    "tests/scenario/test_limits.py": 5,
    "tests/scenario/test_namespaces.py": 5,
    "tests/unit/stores/test_sqlite_cost.py": 5,
}
"""Modules that start whole planes or many processes, and about how many seconds each takes alone."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Each worker begins elsewhere in all the modules: what one has compiled, the others find. In a fresh checkout
    that is half of what it takes to collect them."""
    number, workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:], os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    if workers == "1" or session.config.args != ["tests"]:
        return
    ignored = session.config.getoption("ignore") or ()
    modules = [path for path in sorted(Path("tests").rglob("test_*.py")) if not any(map(path.is_relative_to, ignored))]
    begin = len(modules) * int(number) // int(workers)
    for path in (*modules[begin:], *modules[:begin]):
        with contextlib.suppress(Exception):  # which is told when it is collected
            importlib.import_module(".".join(path.with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow modules first, whole, and some at each worker: one that begins last is what everybody waits for.

    xdist's `worksteal` gives each worker an equal piece of the list; who is done takes from the ends of others' pieces.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    seconds = [0] * workers
    firsts: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for name, duration in SLOW.items():
        worker = seconds.index(min(seconds))
        seconds[worker] += duration
        firsts[worker] += [item for item in items if item.nodeid.startswith(name)]
    slow = set(itertools.chain.from_iterable(firsts))
    rest = iter([item for item in items if item not in slow])
    ordered: list[pytest.Item] = []
    for worker, first in enumerate(firsts):
        length = (len(items) - len(ordered)) // (workers - worker)
        ordered += [*first, *itertools.islice(rest, max(0, length - len(first)))]
    items[:] = [*ordered, *rest]


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: to look through it for garbage takes a tenth of the time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # xdist's workers inherit the folder of the run
        config.stash[FOLDER] = run_folder.create()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """After xdist has stopped its workers: no process and no file of a green run stays."""
    result = yield
    folder = session.config.stash.get(FOLDER, None)
    if folder is None:
        return result
    commands.close()
    report = session.config.get_terminal_writer()
    for process in run_folder.end_processes(folder):
        report.line(f"The tests left a process behind, which was killed: {process}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        run_folder.remove(folder)
    else:
        report.line(f"The files of this run are in {folder}")
    return result


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the texts in tests/golden; without -n")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Iterator[Golden]:
    """The expected texts of this test, of the surface that its folder in the tier is named after."""
    surface, *folders = request.path.relative_to(Path(__file__).parent).with_suffix("").parts[1:]
    name = f"{'/'.join(folders)}::{request.node.name}"
    golden = Golden(surface, name, update=request.config.getoption("update_golden"))
    yield golden
    golden.close()
