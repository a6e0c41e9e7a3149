"""Job sets in the control API of a harness: what a controller and runners would write of them."""

from __future__ import annotations

import json
import struct
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mizzen.blobs.file_store import FileBlobs
from mizzen.kinds.schema.resource import Ref
from mizzen.runs import records
from mizzen.runs.checkpoints import Checkpoint, CheckpointStore, checkpoint_id, digest_of
from mizzen.runs.paths import JobPlace
from mizzen.runs.records import Exit, File
from tests.support.server.harness import Harness

BEGAN = "2026-01-31T12:00:00Z"
ENDED = "2026-01-31T12:01:30Z"


@dataclass(frozen=True, slots=True)
class Training:
    """One job set of `iris`, by its id."""

    control: Harness
    id: str

    @property
    def place(self) -> JobPlace:
        return JobPlace(self.control.folder, self._stored().meta.uid)

    def become(self, state: str, reason: str = "", message: str = "", **status: Any) -> None:
        """What its controller would write."""
        told = {
            "type": state, "status": "True", "reason": reason or state, "message": message, "lastTransitionTime": BEGAN,
        }  # fmt: skip

        async def write() -> None:
            job = await self.control.store.get(Ref("TrainingJob", self.id))
            new = {**job.status, "state": state, "conditions": [told], "startTime": BEGAN, **status}
            await self.control.store.update_status(replace(job, status=new), "system")

        self.control.run(write())

    def report(self, step: int, total: int, **metrics: float) -> None:
        place = self.place.replica("worker-0")
        data = {"step": step, "total": total, "metrics": metrics, "message": "", "time": time.time()}
        records.write(place.progress, data)

    def fail(self, last_lines: str, replica: str = "worker-0") -> None:
        """What its runner would leave."""
        records.write(self.place.replica(replica).exit(0), Exit(0, 1, last_lines=last_lines).to_json())

    def print(self, text: str, replica: str = "worker-0") -> None:
        place = self.place.replica(replica)
        place.folder.mkdir(parents=True, exist_ok=True)
        with place.log(0).open("ab") as log:
            log.write(text.encode())
        with place.times(0).open("ab") as times:
            times.write(struct.pack("<dQ", time.time(), place.log(0).stat().st_size))

    def save(self, name: str, content: str = "weights", *, step: int | None = None, **metrics: float) -> str:
        """A checkpoint of one file; its id."""
        blobs = FileBlobs(self.control.folder / "blobs")
        blob = blobs.put_bytes(content.encode())
        files = (File(name, blob.digest, blob.size),)
        sha256, job = digest_of(files), self._stored()
        made = Checkpoint(
            id=checkpoint_id(self.id, name, sha256, 0), namespace="default", model="iris", version="1", version_uid="",
            job=self.id, job_uid=job.meta.uid, name=name, files=files, sha256=sha256, created=time.time(), step=step,
            metrics=metrics, framework="sklearn", entrypoint=name, trusted=True,
        )  # fmt: skip
        assert CheckpointStore(blobs.documents).add(made)
        return made.id

    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(json.dumps(self._stored().spec))
        return found

    def _stored(self) -> Any:
        return self.control.run(self.control.store.get(Ref("TrainingJob", self.id)))


def code(control: Harness) -> Path:
    """A folder that can be trained."""
    return Path(control.file("code/train.py", "print('training')\n")).parent
