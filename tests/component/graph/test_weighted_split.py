"""Splits: whom a number hits, and the number of a key."""

from __future__ import annotations

import subprocess
import sys

GOLDEN = {"ann": 0.109744576345711, "bob": 0.4658762098619763, "": 0.7891985391709461}


def test_another_process_finds_the_same_number() -> None:
    code = "from mizzen.graph import weighted_split; print(repr(weighted_split.share_of(b'ann', b'7f3a/router')))"
    for seed in ("1", "2"):
        told = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        assert float(told.stdout) == GOLDEN["ann"]
