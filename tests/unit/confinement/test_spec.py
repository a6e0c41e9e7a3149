"""The data of a confinement, and the environment that goes with one."""

from __future__ import annotations

import json

import pytest

from mizzen.confinement import launcher
from mizzen.confinement.spec import Confinement

FULL = Confinement(
    read=("/r",), write=("/w", "/x"), outside=("/o",), protected=("/p",), home="/w", user="nobody"
)  # fmt: skip


@pytest.mark.parametrize("confinement", [Confinement(), FULL])
def test_it_survives_json(confinement: Confinement) -> None:
    assert Confinement.from_json(json.loads(json.dumps(confinement.to_json()))) == confinement


def test_none_stays_none() -> None:
    assert Confinement.from_json(None) is None


@pytest.mark.parametrize("data", [[], "all", {"reed": ["/"]}])
def test_anything_else_is_refused(data: object) -> None:
    """A field that this release does not know could be a restriction: it must not be ignored."""
    with pytest.raises(ValueError, match="a confinement is an object of"):
        Confinement.from_json(data)


def test_only_variables_of_libraries_are_inherited() -> None:
    kept = {"PATH": "/bin", "LC_ALL": "C", "OMP_NUM_THREADS": "2", "CUDA_HOME": "/c", "https_proxy": "p", "TZ": "UTC"}
    withheld = {
        "HOME": "/h", "AWS_SECRET_ACCESS_KEY": "s", "DATABASE_URL": "u", "SSH_AUTH_SOCK": "/s", "TF_TOKEN_x": "t",
        "TORCH_API_KEY": "k", "MIZZEN_ADMIN": "a", "LD_PRELOAD": "/l", "PYTHONSTARTUP": "/p", "PATHS": "x",
        "DBUS_SESSION_BUS_ADDRESS": "b", "CUDA_PASSWORD": "p",
    }  # fmt: skip
    assert launcher.clean_environment({**kept, **withheld}) == kept


def test_home_is_its_own_folder() -> None:
    assert launcher.home_environment(FULL) == {"HOME": "/w", "TMPDIR": "/w", "XDG_CACHE_HOME": "/w/.cache"}
    assert launcher.home_environment(Confinement()) == {}
