"""What `mizzen status` says about the machine's means to hold processes together."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from mizzen.assemble.confinement import report
from mizzen.confinement.cgroups.hierarchies import Hierarchies
from mizzen.confinement.machine import Machine
from mizzen.settings import Settings

FULL = Hierarchies("/cg", {"memory": "/cg", "pids": "/cg", "cpu": "/cg"})


def sentence(
    tmp_path: Path, groups: Hierarchies, landlock: int = 7, namespace: Literal["user", "none"] = "user"
) -> str:
    offered = Machine(landlock=landlock, seccomp=True, namespaces="own", root=True)
    return report(Settings.load({"data_dir": str(tmp_path)}), offered, groups, namespace).sentence


def test_cgroups_are_named_with_what_they_limit(tmp_path: Path) -> None:
    text = sentence(tmp_path, FULL)
    assert "cgroups (memory, pids, cpu)" in text
    assert "limits of" not in text


def test_missing_limits_are_named(tmp_path: Path) -> None:
    assert "without limits of memory, cpu" in sentence(tmp_path, Hierarchies("/cg", {"pids": "/cg"}))
    text = sentence(tmp_path, Hierarchies())
    assert "a PID namespace" in text
    assert "limits of memory, pids, cpu" in text


def test_what_can_outlive_a_model_is_said(tmp_path: Path) -> None:
    assert "what a model starts can outlive it" in sentence(tmp_path, Hierarchies(), namespace="none")
    assert "code of root can leave its own" in sentence(tmp_path, FULL, landlock=0)
