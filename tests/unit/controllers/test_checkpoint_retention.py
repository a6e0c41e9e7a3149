"""Which checkpoints go, and that what is served never does."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mizzen.controllers.training import checkpoint_retention
from mizzen.controllers.training.checkpoint_retention import ServedCheckpoints
from mizzen.kinds.training import JobRetention
from mizzen.runs.checkpoints import Checkpoint
from mizzen.runs.records import File
from tests.support.controllers.objects import inference_model, workload


def checkpoint(number: int, **metrics: float) -> Checkpoint:
    return Checkpoint(
        id=f"job-{number}", namespace="default", model="iris", version="3", version_uid="v", job="job", job_uid="uid",
        name=f"ckpt-{number}", files=(File("model.npy", f"sha256:{number:064}", 1),), sha256="0", created=float(number),
        metrics=metrics,
    )  # fmt: skip


def gone(every: list[Checkpoint], served: ServedCheckpoints | None = None, **retention: Any) -> list[str]:
    kept = JobRetention.model_validate(retention)
    return sorted(each.id for each in checkpoint_retention.find_surplus(every, kept, served or ServedCheckpoints()))


FIVE = [checkpoint(number, loss=loss) for number, loss in enumerate((0.5, 0.1, 0.3, 0.2, 0.4))]


def test_without_a_number_all_are_kept() -> None:
    assert checkpoint_retention.find_surplus(FIVE, None, ServedCheckpoints()) == []
    assert gone(FIVE, best=1, metric="loss") == []


def test_the_newest_are_kept_and_the_best_beside_them() -> None:
    assert gone(FIVE, checkpoints=2) == ["job-0", "job-1", "job-2"]
    assert gone(FIVE, checkpoints=1, best=1, metric="loss", mode="min") == ["job-0", "job-2", "job-3"]
    assert gone(FIVE, checkpoints=1, best=1, metric="loss") == ["job-1", "job-2", "job-3"]
    assert gone(FIVE, checkpoints=1, best=2, metric="accuracy") == ["job-0", "job-1", "job-2", "job-3"]


def test_what_is_served_is_kept_by_name_and_by_its_files() -> None:
    by_spec = inference_model(checkpoint="job-0")
    by_status = inference_model("other")
    by_status = type(by_status)(by_status.kind, by_status.meta, by_status.spec, {"checkpoint": "job-1"})
    running = workload("w", "ready", artifacts=[{"path": "model.npy", "digest": FIVE[2].files[0].digest, "size": 1}])
    training = workload("t", "ready", purpose="train", artifacts=[{"path": "a", "digest": FIVE[3].files[0].digest}])
    served = checkpoint_retention.find_served((by_spec, by_status), (running, training))
    assert gone(FIVE, served, checkpoints=1) == ["job-3"]


@given(
    losses=st.lists(st.none() | st.floats(-1, 1), max_size=12),
    last=st.integers(1, 4),
    best=st.integers(1, 4),
    served=st.frozensets(st.integers(0, 11)),
)
def test_the_last_the_best_and_the_served_always_stay(
    losses: list[float | None], last: int, best: int, served: frozenset[int]
) -> None:
    every = [checkpoint(number, **({} if loss is None else {"loss": loss})) for number, loss in enumerate(losses)]
    names = ServedCheckpoints(frozenset(f"job-{number}" for number in served))
    lost = set(gone(every, names, checkpoints=last, best=best, metric="loss", mode="min"))
    kept = [each for each in every if each.id not in lost]
    assert {each.id for each in every[-last:]} <= {each.id for each in kept}
    assert not lost & names.ids
    measured = sorted(each.metrics["loss"] for each in every if each.metrics)[:best]
    assert sorted(each.metrics["loss"] for each in kept if each.metrics)[: len(measured)] == measured
    assert len(lost) >= len(every) - last - best - len(served)
