"""The SDK as a data scientist uses it, in a process of its own that ends without saying goodbye."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import planes

SCRIPT = """
import pathlib
import sys

import numpy
from sklearn.linear_model import LinearRegression

import mizzen

FACTOR = 3

plane = mizzen.start(sys.argv[1], port=0, inference_port=0, grpc_port=0, tls_port=0)

fitted = LinearRegression(fit_intercept=False).fit(numpy.eye(4), numpy.array([1.0, 10.0, 100.0, 1000.0]))
plane.deploy("weigher", fitted)
assert numpy.allclose(plane.predict("weigher", [[1, 2, 3, 4]]).array, [4321.0])


def triple(inputs):
    return inputs["x"] * FACTOR


plane.deploy("triple", triple)
model = plane.model("triple")
assert model.predict({"x": numpy.array([1, 2])}).array.tolist() == [3, 6]

plane.deploy("triple", lambda inputs: inputs["x"] * 300)
assert model.current == "2"
assert model.predict({"x": numpy.array([1, 2])}).array.tolist() == [300, 600]
model.promote(1)
assert model.current == "1"
assert [entry["action"] for entry in model.history()].count("promoted") == 3

other = mizzen.connect(plane.url, (pathlib.Path(sys.argv[1]) / "admin-token").read_text().strip())
assert [each.name for each in other.models()] == ["triple", "weigher"]
other.close()

try:
    plane.predict("weigher", [[1, 2, 3]])
except mizzen.errors.BadRequest as error:
    assert "[-1, 4]" in str(error), error
else:
    raise AssertionError("a row too short was accepted")
print("all well")
"""


def test_notebook_session(tmp_path: Path) -> None:
    (tmp_path / "session.py").write_text(SCRIPT)
    data_dir = tmp_path / "data"
    try:
        done = subprocess.run(
            [sys.executable, "session.py", str(data_dir)], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert "all well" in done.stdout, done.stderr
        planes.wait_until(lambda: planes.members(data_dir) == [], "the plane ended with the script")
    finally:
        planes.end_all(data_dir)
