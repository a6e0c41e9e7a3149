"""A TorchScript program is a program: its operators open files. Trusted or not, it reads nothing of the plane."""

from __future__ import annotations

from pathlib import Path

import httpx2
import numpy as np
import pytest
import torch

from tests.ml import making
from tests.support import planes

LENGTH = 16


class Reads(torch.nn.Module):
    """Answers with the beginning of a file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.length = LENGTH

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        read = torch.from_file(self.path, False, self.length, dtype=torch.uint8)
        return read.to(torch.float32).expand(x.shape[0], self.length)


def ask(plane: planes.TestPlane, name: str) -> httpx2.Response:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}
    url = f"{plane.inference_url}/v2/models/{name}/infer"
    return httpx2.post(url, json={"inputs": [tensor]}, timeout=60)


@pytest.mark.parametrize("secret", ["admin-token", "mizzen.db", "run/supervisor.key"])
def test_a_trusted_program_reads_no_file_of_the_plane(plane: planes.TestPlane, tmp_path: Path, secret: str) -> None:
    path, name = plane.data_dir / secret, f"reads-{Path(secret).stem}"
    assert path.stat().st_size >= LENGTH
    plane.cli("deploy", str(making.save_script(Reads(str(path)), tmp_path / "reads.pt")), "--name", name)
    answer = ask(plane, name)
    assert answer.status_code >= 400
    assert path.read_bytes()[:LENGTH].decode("latin-1") not in answer.text


def test_the_operator_reads_what_all_may_read(plane: planes.TestPlane, tmp_path: Path) -> None:
    """Otherwise the attacks would prove nothing."""
    path = Path(np.__file__).resolve()
    plane.cli("deploy", str(making.save_script(Reads(str(path)), tmp_path / "reads.pt")), "--name", "reads-numpy")
    answer = ask(plane, "reads-numpy")
    assert answer.status_code == 200, answer.text
    assert [int(each) for each in answer.json()["outputs"][0]["data"]] == list(path.read_bytes()[:LENGTH])
