"""Files of the real frameworks are known by their content, whatever they are called, and none is unpickled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mizzen.blobs import model_formats


def test_a_class_of_a_script_is_told_what_to_do(tmp_path: Path) -> None:
    script = "import pickle, sys\nclass Model:\n    pass\npickle.dump(Model(), open(sys.argv[1], 'wb'))\n"
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "m.pkl")], check=True)
    found = model_formats.look(tmp_path / "m.pkl", "m.pkl")
    assert found is not None
    assert found.framework is None
    assert "move them to a module" in found.advice
