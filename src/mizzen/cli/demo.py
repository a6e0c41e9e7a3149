"""The demo of `mizzen up --demo`: a classifier of iris flowers, trained once and served as `iris`.

Run as `python -m mizzen.cli.demo FILE`, this module trains the model. It runs in its own process, so that the plane
can start at the same time and scikit-learn's memory is freed afterwards.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mizzen import errors

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

NAME: Final = "iris"
ROW: Final = "[[5.1,3.5,1.4,0.2]]"
TENSOR: Final = '{"inputs":[{"name":"input","datatype":"FP64","shape":[1,4],"data":[5.1,3.5,1.4,0.2]}]}'
ID: Final = "my-request"
"""Id of the example request, which the feedback line refers to."""
TRUTH: Final = "[0]"


class DemoTraining:
    """Training in a child process; does nothing if the data dir, which must exist, already has the model."""

    def __init__(self, data_dir: Path) -> None:
        self.file = data_dir / "demo" / f"{NAME}.joblib"
        self._child: subprocess.Popen[str] | None = None
        if self.file.exists():
            return
        self.file.parent.mkdir(mode=0o700, exist_ok=True)
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "mizzen.cli.demo", str(self.file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C in the terminal is for `up`, which stops this process
        )

    def finish(self) -> Path:
        """Wait for the trained model and return its file. Raises ModelFailed if training failed."""
        if self._child is not None:
            _, stderr = self._child.communicate()
            if self._child.returncode:
                last = stderr.strip().rpartition("\n")[2]
                raise errors.ModelFailed(f"training the demo failed: {last}", hint="pip install 'mizzen[sklearn]'")
        return self.file

    def cancel(self) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.communicate()


async def serve(plane: AsyncPlane, training: DemoTraining) -> bool:
    """Serve the demo and wait until it answers. Returns False if an earlier run had deployed it."""
    from mizzen.sdk.operations import deploy

    servers = {
        item["spec"]["targetVersion"]: item["metadata"]["name"]
        for item in (await plane.list("inferencemodels"))["items"]
        if item["spec"]["modelName"] == NAME and "deletionTimestamp" not in item["metadata"]
    }
    if not servers:
        begun = await plane.deploy(NAME, training.finish(), framework="sklearn", wait=False)
        await plane.request(
            "PATCH",
            plane.path("inferencemodels", begun.server),
            body={"spec": {"feedback": {}}},
            headers={"content-type": "application/merge-patch+json"},
        )
        await plane.finish(begun)
        return True
    model = await plane.get("models", NAME)
    current = (model.get("status", {}).get("current") or {}).get("version")
    version = str(current if current in servers else next(iter(servers)))
    await plane.wait_ready(servers[version])
    await deploy.wait_answering(
        plane, NAME, version, servers[version], current=version == current, seconds=deploy.TIMEOUT
    )
    return False


def train(file: Path) -> None:
    import joblib
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    rows, labels = load_iris(return_X_y=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    joblib.dump(LogisticRegression(max_iter=1000).fit(rows, labels), draft)
    draft.replace(file)


if __name__ == "__main__":
    train(Path(sys.argv[1]))
