"""Job sets as controllers and runners leave them: statuses in the store, files on disk, checkpoints in Blobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx2

from mizzen.kinds.schema.resource import Condition, Resource, format_time
from mizzen.kinds.training import JobState, TrainingJobStatus
from mizzen.runs.checkpoints import Checkpoint, CheckpointStore, checkpoint_id, digest_of
from mizzen.runs.log_times import TimesFile
from mizzen.runs.paths import JobPlace
from mizzen.runs.records import File
from mizzen.server.http.context import ServerContext
from tests.support.server.harness import Harness

TRAIN = "/model/iris/train/1"


def code(plane: Harness, admin: httpx2.Client, model: str = "iris", *, framework: str = "sklearn") -> str:
    """One more version of a model that is code to be trained."""
    admin.post("/model", json={"name": model})
    plane.file(f"{model}-code/train.py", "print('trains')")
    plane.file(f"{model}-code/more.txt", "more")
    sent = {"path": str(plane.files / f"{model}-code"), "framework": framework}
    answer = admin.post(f"/model/{model}/version", json=sent)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["version"])


def start(client: httpx2.Client, path: str = TRAIN, **spec: Any) -> str:
    answer = client.post(path, json=spec)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def tell(plane: Harness, job: str, state: JobState, reason: str = "Because", **more: Any) -> Resource:
    """What the controller would write."""
    now = format_time(datetime.now(UTC))
    condition = Condition(type=state, status="True", reason=reason, message="in words", last_transition_time=now)

    async def write() -> Resource:
        found = await plane.store.get(plane.ref("TrainingJob", job))
        told = TrainingJobStatus.of(found).model_copy(update={"state": state, "conditions": (condition,), **more})
        return await plane.store.update_status(found.with_status(told), "system")

    return plane.run(write())


def place(plane: Harness, job: str) -> JobPlace:
    found = plane.run(plane.store.get(plane.ref("TrainingJob", job)))
    return JobPlace(plane.folder, found.meta.uid)


def shelf(plane: Harness) -> CheckpointStore:
    state = plane.app.state.context
    assert isinstance(state, ServerContext)
    return state.checkpoints


def saved(plane: Harness) -> list[Checkpoint]:
    return [one for one in shelf(plane).all() if one.namespace == plane.namespace]


def save(
    plane: Harness,
    job: str,
    name: str = "model.joblib",
    files: Mapping[str, bytes] | None = None,
    **more: Any,
) -> Checkpoint:
    """What a runner would publish."""
    found = plane.run(plane.store.get(plane.ref("TrainingJob", job)))
    model, version = str(found.spec["modelName"]), str(found.spec.get("version") or "")
    of = plane.run(plane.store.get(plane.ref("ModelVersion", f"{model}.{version}"))).meta.uid if version else ""
    blobs = plane.app.state.context.blobs
    kept = []
    for path, content in (files or {name: f"weights of {name}".encode()}).items():
        blob = blobs.put_bytes(content)
        kept.append(File(path, blob.digest, blob.size))
    digest = digest_of(kept)
    one = Checkpoint(
        id=checkpoint_id(job, name, digest, 0), namespace=plane.namespace, model=model, version=version, version_uid=of,
        job=job, job_uid=found.meta.uid, name=name, files=tuple(kept), sha256=digest,
        created=datetime.now(UTC).timestamp(), framework="sklearn", entrypoint=next(iter(files or {name: b""})),
    )  # fmt: skip
    one = replace(one, **more)
    assert shelf(plane).add(one)
    return one


def report(plane: Harness, job: str, data: Mapping[str, Any], past: Sequence[Mapping[str, Any]] = ()) -> None:
    """What the code would write to MIZZEN_PROGRESS, and what its runner kept of that before."""
    replica = place(plane, job).replica("worker-0")
    replica.folder.mkdir(parents=True, exist_ok=True)
    replica.progress.write_text(json.dumps(data))
    replica.past_progress.write_text("".join(f"{json.dumps(line)}\n" for line in past))


def prints(plane: Harness, job: str, replica: str, lines: Sequence[tuple[float, str]], attempt: int = 0) -> None:
    """What a command would print, and when."""
    at = place(plane, job).replica(replica)
    at.folder.mkdir(parents=True, exist_ok=True)
    times = TimesFile(at.times(attempt))
    with at.log(attempt).open("ab", buffering=0) as log:
        for time, line in lines:
            log.write(f"{line}\n".encode())
            times.note(time, log.tell())
    times.close()
