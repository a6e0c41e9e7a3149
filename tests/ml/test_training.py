"""Job sets whose processes train one model together: PyTorch over gloo, TensorFlow by TF_CONFIG."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import planes
from tests.support.training import Trainer

GLOO = """
    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
    with torch.no_grad():
        model.module.weight.fill_(0.0)
    # Each has rows of its own: y = 2x here, y = 4x there. Only with both is the slope 3.
    x = torch.ones(8, 1)
    y = x * (2.0 if rank == 0 else 4.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    for step in range(50):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    slope = model.module.weight.item()
    print(f"rank {rank} slope {slope:.3f}", flush=True)
    if rank == 0:
        folder = os.environ["MIZZEN_CHECKPOINT_DIR"]
        torch.jit.script(model.module).save(os.path.join(folder, ".model.pt"))
        os.rename(os.path.join(folder, ".model.pt"), os.path.join(folder, "model.pt"))
    dist.barrier()
    dist.destroy_process_group()
"""

MIRRORED = """
    import json, os
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    with strategy.scope():
        slope = tf.Variable(0.0)
    target = tf.constant(2.0 if task["index"] == 0 else 4.0)

    @tf.function
    def step():
        def replica():
            with tf.GradientTape() as tape:
                loss = (slope - target) ** 2
            gradient = tape.gradient(loss, slope)
            mean = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradient)
            slope.assign_sub(0.25 * mean)
        strategy.run(replica)

    for _ in range(50):
        step()
    print(f"{task['type']} {task['index']} slope {float(slope.numpy()):.3f}", flush=True)
"""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    with planes.running_plane(tmp_path_factory.mktemp("plane") / "data") as running:
        yield running


def test_two_processes_average_their_gradients_over_gloo(plane: planes.TestPlane) -> None:
    trainer = Trainer(plane, "gloo")
    job = trainer.script(GLOO, pytorchReplicaSpecs={"Master": {"replicas": 1}, "Worker": {"replicas": 1}})
    now = job.until_state("Succeeded", "Failed", timeout=600)
    assert now["state"] == "Succeeded", (job.why(), job.logs())
    assert "[master-0] rank 0 slope 3.000" in job.logs()
    served = trainer.got("POST", f"/model/gloo/serve/{job.version}", {})
    assert served["checkpoint_id"] == job.checkpoints[0]["checkpoint_id"]


def test_tensorflow_finds_the_others_by_tf_config(plane: planes.TestPlane) -> None:
    job = Trainer(plane, "mirrored").script(MIRRORED, replicas=2, successPolicy="AllWorkers")
    now = job.until_state("Succeeded", "Failed", timeout=600)
    assert now["state"] == "Succeeded", (job.why(), job.logs())
    lines = [line for line in job.logs().splitlines() if "slope" in line]
    assert sorted(lines) == ["[worker-0] worker 0 slope 3.000", "[worker-1] worker 1 slope 3.000"]
