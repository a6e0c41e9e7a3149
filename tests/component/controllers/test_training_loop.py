"""Job sets from the first look to the last, with the controllers over the real store; only the processes are played."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mizzen.blobs.documents import FileDocuments as NamedDocuments
from mizzen.blobs.file_store import FileBlobs
from mizzen.controllers.training.admission_queue import AdmissionQueue, QueuedJob, ResourceRequest
from mizzen.controllers.training.controller import TrainingJobs
from mizzen.controllers.training.results import JobResults
from mizzen.controllers.workloads import Workloads
from mizzen.engines.engine import Capability, Observation
from mizzen.errors import AlreadyExists, Conflict
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Condition, Ref, Resource, parse_time
from mizzen.kinds.training import TrainingJobStatus
from mizzen.kinds.workload import ReplicaStatus, WorkloadSpec
from mizzen.reconcile.controller import find
from mizzen.reconcile.loop import Loop
from mizzen.runs.checkpoints import Checkpoint, CheckpointStore
from mizzen.runs.paths import JobPlace
from mizzen.runs.records import File
from mizzen.stores.lookup import Lookup
from mizzen.stores.sqlite.store import SqliteStore
from tests.support.controllers import jobs
from tests.support.controllers.objects import NOBODY, NOW, inference_model, model


@dataclass
class Tasks:
    """An Engine whose runners do as they are told, once: by replica and attempt, an exit code."""

    codes: dict[tuple[str, int], int] = field(default_factory=dict)
    reasons: dict[tuple[str, int], str] = field(default_factory=dict)
    seen: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """By job: replicas and attempts, as they were started."""
    there: set[str] = field(default_factory=set)
    most: int = 0
    """Workloads that were there at once."""
    holds: bool = False
    """What is stopped takes its time."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset()

    async def apply(self, workload: Resource) -> Observation:
        task = WorkloadSpec.of(workload).task
        assert task is not None
        key = (task.replica, task.attempt)
        self.there.add(workload.meta.uid)
        self.most = max(self.most, len(self.there))
        started = self.seen.setdefault(task.job, [])
        if key not in started:
            started.append(key)
        code = self.codes.get(key)
        said: dict[str, Any] = {"index": 0, "state": "ready", "attempt": task.attempt}
        if code is not None:
            said |= {"state": "ended", "exitCode": code, "reason": self.reasons.get(key, "")}
        return Observation((ReplicaStatus.model_validate(said),))

    async def delete(self, workload: Resource) -> bool:
        if self.holds:
            return False
        self.there.discard(workload.meta.uid)
        return True

    def logs(self, workload: Resource, **_: Any) -> AsyncIterator[bytes]:
        raise NotImplementedError

    def changes(self) -> AsyncIterator[Ref]:
        raise NotImplementedError


@dataclass
class World:
    store: SqliteStore
    tasks: Tasks
    documents: NamedDocuments
    loop: Loop[Any]
    folder: Path

    async def status(self, name: str = "job") -> TrainingJobStatus:
        return TrainingJobStatus.of(await self.store.get(Ref("TrainingJob", name)))

    async def until(self, state: str, name: str = "job") -> TrainingJobStatus:
        await eventually(lambda: self._is(state, name))
        return await self.status(name)

    async def ends(self, replica: str, code: int, attempt: int = 0, name: str = "job") -> None:
        self.tasks.codes[replica, attempt] = code
        self.loop.enqueue(Ref("Workload", f"{name}.{replica}"))

    async def _is(self, state: str, name: str) -> bool:
        return (await self.status(name)).state == state


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def world(folder: Path, cpus: float = 4, ago: float = 0.0) -> AsyncIterator[World]:
    """`ago`: so many seconds."""

    def now() -> datetime:
        return datetime.now(UTC) - timedelta(seconds=ago)

    store = await SqliteStore.open(folder / "mizzen.db", clock=now, new_id=lambda: uuid.uuid4().hex)
    documents, tasks = FileBlobs(folder / "blobs").documents, Tasks()

    def poke(ref: Ref) -> None:
        loop.enqueue(ref)

    training = TrainingJobs(
        Context(), AdmissionQueue(cpus, 1 << 30, enqueue=poke), JobResults(folder, documents), Lookup(*NOBODY), now=now
    )
    loop = Loop(store, [training, Workloads(tasks)], now=now)
    await training.restore(store)
    task = asyncio.create_task(loop.run())
    try:
        for resource in (model(), jobs.code()):
            with contextlib.suppress(AlreadyExists):
                await store.create(resource, "ann")
        yield World(store, tasks, documents, loop, folder)
    finally:
        task.cancel()
        await asyncio.wait({task})
        await store.close()


def test_a_job_runs_and_succeeds_and_its_workload_goes(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as here:
            await here.store.create(jobs.job(), "ann")
            status = await here.until("Running")
            assert (status.admitted, status.ports) == (True, {})
            await here.ends("worker-0", 0)
            status = await here.until("Succeeded")
            assert jobs.phases(status) == ["Succeeded"]
            assert status.is_true("NoCheckpoint")
            assert status.completion_time
            await eventually(lambda: gone(here, Ref("Workload", "job.worker-0")))
            await eventually(lambda: gave_back(here))

    asyncio.run(main())


async def gone(here: World, ref: Ref) -> bool:
    return await find(here.store, ref) is None


async def gave_back(here: World) -> bool:
    return not (await here.status()).admitted


def test_a_bad_end_is_final_and_tells_which_replica_and_code(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as here:
            await here.store.create(jobs.job(replicas=2), "ann")
            status = await here.until("Running")
            assert sorted(status.ports) == ["worker-0", "worker-1"]
            await here.ends("worker-1", 3)
            status = await here.until("Failed")
            failed = status.condition("Failed")
            assert failed is not None
            assert (failed.reason, failed.message) == ("ReplicaFailed", "worker-1 ended with code 3")
            assert [each.state for each in status.replica_states] == ["stopped", "failed"]

    asyncio.run(main())


def test_another_attempt_follows_one_that_was_killed(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as here:
            await here.store.create(jobs.job(restartPolicy="ExitCode"), "ann")
            await here.until("Running")
            await here.ends("worker-0", 137)
            status = await here.until("Restarting")
            assert (status.restarts, status.replica_states[0].exit_code) == (1, 137)
            await here.until("Running")
            assert here.tasks.seen["job"] == [("worker-0", 0), ("worker-0", 1)]
            await here.ends("worker-0", 0, attempt=1)
            await here.until("Succeeded")

    asyncio.run(main())


def test_an_object_goes_when_its_time_is_over_and_what_it_saved_stays(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as here:
            await here.store.create(jobs.job(ttlSecondsAfterFinished=1), "ann")
            await here.until("Running")
            uid = (await here.store.get(Ref("TrainingJob", "job"))).meta.uid
            saved(here, uid, 1)
            await here.ends("worker-0", 0)
            assert (await here.until("Succeeded")).checkpoints == 1
            await eventually(lambda: gone(here, Ref("TrainingJob", "job")))
            assert await find(here.store, Ref("Workload", "job.worker-0")) is None
            assert len(CheckpointStore(here.documents).all()) == 1

    asyncio.run(main())


def saved(here: World, uid: str, number: int, **metrics: float) -> Checkpoint:
    """A checkpoint as a runner publishes one."""
    made = Checkpoint(
        id=f"job-{number}", namespace="default", model="iris", version="3", version_uid="v", job="job", job_uid=uid,
        name=f"ckpt-{number}", files=(File("model.npy", f"sha256:{number:064}", 1),), sha256="0", created=float(number),
        metrics=metrics,
    )  # fmt: skip
    assert CheckpointStore(here.documents).add(made)
    return made


def test_a_set_that_is_suspended_stops_and_gives_its_share_to_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, cpus=1) as here:
            await here.store.create(jobs.job("first"), "ann")
            await here.until("Running", "first")
            await here.store.create(jobs.job("second"), "ann")
            status = await here.until("Queued", "second")
            queued = status.condition("Queued")
            assert queued is not None
            await eventually(lambda: says(here, "second", "Queued", "needs 1 CPU; 0 of 1 free: first has 1"))
            await suspend(here, "first", value=True)
            await here.until("Suspended", "first")
            await here.until("Running", "second")
            await suspend(here, "first", value=False)
            await here.until("Queued", "first")
            await here.store.delete(Ref("TrainingJob", "second"), "ann")
            await here.until("Running", "first")
            assert here.tasks.seen["first"] == [("worker-0", 0), ("worker-0", 1)]

    asyncio.run(main())


async def suspend(here: World, name: str, *, value: bool) -> None:
    async def done() -> bool:
        found = await here.store.get(Ref("TrainingJob", name))
        try:
            await here.store.update(replace(found, spec={**found.spec, "suspend": value}), "ann")
        except Conflict:
            return False
        return True

    await eventually(done)


async def says(here: World, name: str, type_: str, message: str) -> bool:
    condition = (await here.status(name)).condition(type_)
    return condition is not None and condition.message == message


def test_many_jobs_at_once_all_end_and_never_more_run_than_there_is_room_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, cpus=2) as here:
            names = [f"job-{number:02}" for number in range(20)]
            here.tasks.codes[("worker-0", 0)] = 0
            await asyncio.gather(*(here.store.create(jobs.job(name), "ann") for name in names))
            for name in names:
                await here.until("Succeeded", name)
            assert sorted(here.tasks.seen) == names
            assert here.tasks.most <= 2

    asyncio.run(main())


def test_a_new_plane_gives_nothing_away_that_somebody_has_and_goes_on_with_what_runs(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, cpus=1) as here:
            await here.store.create(jobs.job("zzz"), "ann")
            await here.until("Running", "zzz")
            await here.store.create(jobs.job("aaa", priority=5), "ann")
            await here.until("Queued", "aaa")
        async with world(tmp_path, cpus=1) as here:
            await eventually(lambda: says(here, "aaa", "Queued", "needs 1 CPU; 0 of 1 free: zzz has 1"))
            await here.until("Running", "zzz")
            assert "aaa" not in here.tasks.seen
            await here.ends("worker-0", 0, name="zzz")
            await here.until("Succeeded", "zzz")
            await here.until("Succeeded", "aaa")

    asyncio.run(main())


def test_a_share_is_free_only_when_the_last_process_is_gone_and_what_it_kept_on_its_way_counts(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, cpus=1) as here:
            await here.store.create(jobs.job(), "ann")
            await here.until("Running")
            uid = (await here.store.get(Ref("TrainingJob", "job"))).meta.uid
            await here.store.create(jobs.job("next"), "ann")
            here.tasks.holds = True
            here.tasks.codes["worker-0", 0] = 0
            here.loop.enqueue(Ref("Workload", "job.worker-0"))
            status = await here.until("Succeeded")
            assert status.is_true("NoCheckpoint")
            saved(here, uid, 1)
            await here.until("Queued", "next")
            assert "next" not in here.tasks.seen
            assert (await here.status()).admitted
            here.tasks.holds = False
            await here.until("Succeeded", "next")
            await eventually(lambda: newest(here, 1, "job-1"))
            assert (await here.status()).condition("NoCheckpoint") is None
            assert here.tasks.most == 1

    asyncio.run(main())


def test_hours_without_a_plane_do_not_count_towards_the_deadline(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, ago=36_000) as here:
            await here.store.create(jobs.job(activeDeadlineSeconds=3600), "ann")
            await here.until("Running")
        async with world(tmp_path) as here:
            await eventually(lambda: ran_since(here))
            assert (await here.status()).state == "Running"

    asyncio.run(main())


async def ran_since(here: World) -> bool:
    since = parse_time((await here.status()).running_since)
    return since is not None and (datetime.now(UTC) - since).total_seconds() < 3600


def test_surplus_checkpoints_go_while_a_job_runs_but_not_what_is_served(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as here:
            await here.store.create(inference_model("server", "3", checkpoint="job-1"), "ann")
            await here.store.create(jobs.job(retention={"checkpoints": 2}), "ann")
            await here.until("Running")
            uid = (await here.store.get(Ref("TrainingJob", "job"))).meta.uid
            for number in range(1, 6):
                saved(here, uid, number)
            report(here, uid, 5)
            await eventually(lambda: kept(here, {"job-1", "job-4", "job-5"}))
            await eventually(lambda: newest(here, 3, "job-5"))

    asyncio.run(main())


def test_what_is_served_while_it_is_removed_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = CheckpointStore.remove

    async def main() -> None:
        running = asyncio.get_running_loop()
        async with world(tmp_path) as here:

            def served_meanwhile(shelf: CheckpointStore, checkpoint: Checkpoint) -> bool:
                if checkpoint.id == "job-2":
                    new = inference_model("late", "3", checkpoint="job-2")
                    asyncio.run_coroutine_threadsafe(here.store.create(new, "ann"), running).result(60)
                return remove(shelf, checkpoint)

            monkeypatch.setattr(CheckpointStore, "remove", served_meanwhile)
            await here.store.create(jobs.job(retention={"checkpoints": 1}), "ann")
            await here.until("Running")
            uid = (await here.store.get(Ref("TrainingJob", "job"))).meta.uid
            for number in range(1, 4):
                saved(here, uid, number)
            report(here, uid, 3)
            await eventually(lambda: kept(here, {"job-2", "job-3"}))
            await eventually(lambda: newest(here, 2, "job-3"))

    asyncio.run(main())


def report(here: World, uid: str, checkpoints: int, phase: str = "running") -> None:
    place = JobPlace(here.folder, uid).replica("worker-0")
    place.folder.mkdir(parents=True, exist_ok=True)
    said = {"attempt": 0, "phase": phase, "checkpoints": checkpoints}
    place.report.write_text(json.dumps(said))
    here.loop.enqueue(Ref("TrainingJob", "job"))


async def kept(here: World, names: set[str]) -> bool:
    return {each.id for each in CheckpointStore(here.documents).all()} == names


async def newest(here: World, count: int, name: str) -> bool:
    status = await here.status()
    return (status.checkpoints, status.newest_checkpoint) == (count, name)


def test_after_the_end_the_folders_go_and_logs_when_they_have_been_kept_long_enough(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as here:
            await here.store.create(jobs.job(retention={"logs": "1s"}), "ann")
            await here.until("Running")
            uid = (await here.store.get(Ref("TrainingJob", "job"))).meta.uid
            place = JobPlace(tmp_path, uid)
            for folder in (place.checkpoints / "ckpt-1", place.dataset, place.replica("worker-0").folder):
                folder.mkdir(parents=True)
            here.documents.put(f"logs/{uid}/worker-0/0.json", b"{}")
            here.documents.put("logs/other/worker-0/0.json", b"{}")
            await here.ends("worker-0", 0)
            await here.until("Succeeded")
            await eventually(lambda: truth(not place.checkpoints.exists() and not place.dataset.exists()))
            await eventually(lambda: truth(here.documents.names("logs/") == ["logs/other/worker-0/0.json"]))
            await eventually(lambda: truth(not place.folder.exists()))

    asyncio.run(main())


def test_what_may_be_on_this_disk_only_is_left_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as here:
            await here.store.create(jobs.job(), "ann")
            await here.until("Running")
            uid = (await here.store.get(Ref("TrainingJob", "job"))).meta.uid
            folder = JobPlace(tmp_path, uid).checkpoints / "ckpt-1"
            folder.mkdir(parents=True)
            here.tasks.reasons["worker-0", 0] = "StorageUnavailable"
            await here.ends("worker-0", 1)
            await here.until("Failed")
            await eventually(lambda: gave_back(here))
            assert folder.exists()

    asyncio.run(main())


async def truth(value: object) -> bool:
    return bool(value)


def test_progress_and_a_leader_that_puts_away_its_results_are_read_from_disk(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as here:
            await here.store.create(jobs.job(replicas=2), "ann")
            await here.until("Running")
            uid = (await here.store.get(Ref("TrainingJob", "job"))).meta.uid
            place = JobPlace(tmp_path, uid).replica("worker-0")
            place.folder.mkdir(parents=True)
            place.progress.write_text('{"step": 7, "total": 9, "metrics": {"loss": 0.25}}')
            report(here, uid, 0, phase="keeping")
            await eventually(lambda: at_step(here, 7))
            await here.ends("worker-1", 1)
            await eventually(lambda: replica_is(here, "worker-1", "failed"))
            assert (await here.status()).state == "Running"
            await here.ends("worker-0", 0)
            assert (await here.until("Succeeded")).progress is not None

    asyncio.run(main())


async def at_step(here: World, step: int) -> bool:
    progress = (await here.status()).progress
    return progress is not None and (progress.step, progress.metrics) == (step, {"loss": 0.25})


async def replica_is(here: World, name: str, state: str) -> bool:
    return any((each.name, each.state) == (name, state) for each in (await here.status()).replica_states)


def test_a_job_waits_for_its_version_and_starts_when_it_comes(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as here:
            await here.store.create(jobs.job(version="4"), "ann")
            status = await here.until("Queued")
            queued = status.condition("Queued")
            assert queued is not None
            assert queued.reason == "VersionNotFound"
            await here.store.create(jobs.code("4"), "ann")
            await here.until("Running")

    asyncio.run(main())


def test_deleting_the_object_ends_its_workloads_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as here:
            await here.store.create(jobs.job(replicas=2), "ann")
            await here.until("Running")
            await here.store.delete(Ref("TrainingJob", "job"), "ann")
            await eventually(lambda: gone(here, Ref("TrainingJob", "job")))
            assert (await here.store.list("Workload")).items == ()

    asyncio.run(main())


def test_a_set_that_has_ended_and_still_stops_has_its_share_when_a_plane_starts(tmp_path: Path) -> None:
    async def main() -> None:
        store = await SqliteStore.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: uuid.uuid4().hex)
        for name, admitted in (("stops", True), ("over", False)):
            made = await store.create(jobs.job(name), "ann")
            ended = Condition(type="Succeeded", status="True", reason="Succeeded")
            told = TrainingJobStatus(state="Succeeded", admitted=admitted, conditions=(ended,))
            await store.update_status(made.with_status(told), "ann")
        shares = AdmissionQueue(4, 1 << 30, enqueue=lambda _: None)
        results = JobResults(tmp_path, FileBlobs(tmp_path / "blobs").documents)
        await TrainingJobs(Context(), shares, results, Lookup(*NOBODY), now=lambda: NOW).restore(store)
        await store.close()
        assert shares.used.cpus == 1
        assert shares.admit(QueuedJob(Ref("TrainingJob", "new"), "new", ResourceRequest(3)), admitted=False).admitted

    asyncio.run(main())
