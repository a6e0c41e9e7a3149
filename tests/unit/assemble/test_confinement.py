"""What is said about confinement on machines that offer less, and which settings are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mizzen.assemble import confinement
from mizzen.confinement.cgroups.hierarchies import NO_HIERARCHIES
from mizzen.confinement.machine import Machine
from mizzen.errors import Invalid
from mizzen.settings import Settings
from mizzen.supervisor.data_dir import Home

ALL = Machine(landlock=7, seccomp=True, namespaces="own", root=True)
NOTHING = Machine(landlock=0, seccomp=False, namespaces="none", root=False)


@pytest.mark.parametrize(
    ("offered", "status", "reason", "said"),
    [
        (ALL, "True", "Confined", ""),
        (replace(ALL, namespaces="user", root=False), "True", "Confined", "a private list of processes"),
        (replace(ALL, namespaces="none", root=False), "True", "Confined", "mount namespaces"),
        (replace(ALL, landlock=3), "True", "Confined", "a limit on signals"),
        (replace(ALL, landlock=0), "True", "Confined", "Landlock, which needs Linux 5.13"),
        (replace(ALL, landlock=0, namespaces="none"), "False", "FilesInReach", "the plane's keys"),
        (NOTHING, "False", "NotConfined", "the plane's keys"),
    ],
)
def test_what_a_machine_lacks_is_said(offered: Machine, status: str, reason: str, said: str) -> None:
    found = confinement.condition(confinement.report(Settings(), offered, NO_HIERARCHIES, "none"))
    assert (found.status, found.reason) == (status, reason)
    assert found.message is not None
    assert said in found.message


def test_confinement_that_is_off_is_said() -> None:
    found = confinement.condition(confinement.report(Settings(confine_models="off"), ALL))
    assert (found.status, found.reason) == ("False", "NotConfined")


@pytest.mark.parametrize("path", ["{data}", "{data}/work", "{parent}", "/"])
def test_models_may_not_be_given_the_data_dir_to_write(tmp_path: Path, path: str) -> None:
    data = tmp_path / "data"
    settings = Settings(model_write_paths=(path.format(data=data, parent=tmp_path),))
    with pytest.raises(Invalid) as refused:
        confinement.policy_of(settings, Home.of(data), ALL)
    assert [fault.path for fault in refused.value.faults] == ["model_write_paths"]


def test_paths_are_absolute(tmp_path: Path) -> None:
    settings = Settings(model_read_paths=("here",), model_write_paths=("there",))
    with pytest.raises(Invalid) as refused:
        confinement.policy_of(settings, Home.of(tmp_path / "data"), ALL)
    assert [fault.path for fault in refused.value.faults] == ["model_read_paths", "model_write_paths"]


def test_another_folder_is_accepted(tmp_path: Path) -> None:
    settings = Settings(model_write_paths=(str(tmp_path / "results"),))
    assert confinement.policy_of(settings, Home.of(tmp_path / "data"), ALL).write == (str(tmp_path / "results"),)


def test_a_user_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    settings = Settings(run_models_as="no-such-user")
    with pytest.raises(Invalid) as refused:
        confinement.policy_of(settings, Home.of(tmp_path / "data"), ALL)
    assert [fault.path for fault in refused.value.faults] == ["run_models_as"]
