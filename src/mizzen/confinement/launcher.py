"""Confines the process that calls it. Every process that runs users' code passes through here.

A child calls `confine` between fork and exec; a forked copy of a warm process calls it instead of exec. Mechanisms that
the machine does not offer are skipped: `machine.detect` says which, and `mizzen status` shows them.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from mizzen.confinement import landlock, namespaces, privileges, seccomp
from mizzen.confinement.files import mount_plan, ownership, readable_paths
from mizzen.confinement.files.mount_plan import NOTHING, MountPlan
from mizzen.confinement.machine import Machine
from mizzen.confinement.spec import Confinement

_PASSED_ON = re.compile(
    r"PATH|LANG|LANGUAGE|LC_\w+|TZ|PYTHON(PATH|UNBUFFERED|DONTWRITEBYTECODE|HASHSEED|IOENCODING|UTF8)|"
    r"LD_LIBRARY_PATH|CUDA_\w+|NVIDIA_\w+|ROCR?_\w+|HIP_\w+|(OMP|MKL|OPENBLAS|NUMEXPR|GOTO|BLIS|VECLIB)_\w+|MALLOC_\w+|"
    r"TF_\w+|KERAS_\w+|TORCH_\w+|PYTORCH_\w+|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|"
    r"(https?|no|all|ftp)_proxy|(HTTPS?|NO|ALL|FTP)_PROXY"
)
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|API_?KEY|ACCESS_?KEY", re.IGNORECASE)
"""Parts of names that a variable of the operator must not have to be passed on."""


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The operator's variables that a confined process inherits: how libraries work here, and nothing personal."""
    return {name: value for name, value in environ.items() if _PASSED_ON.fullmatch(name) and not _SECRET.search(name)}


def home_environment(confinement: Confinement) -> dict[str, str]:
    """HOME and the temporary folder."""
    home = confinement.home
    return {"HOME": home, "TMPDIR": home, "XDG_CACHE_HOME": os.path.join(home, ".cache")} if home else {}


def child_setup(confinement: Confinement, machine: Machine) -> Callable[[], None]:
    """For `preexec_fn`. What can be done before the fork is done here."""
    plan = _prepare(confinement, machine)

    def set_up() -> None:
        try:
            _confine(plan, machine)
        except BaseException as error:
            os.write(2, f"this process cannot be confined: {error}\n".encode())
            raise

    return set_up


def confine(confinement: Confinement, machine: Machine) -> None:
    """Confines this process, which has one thread, for good. Raises OSError, KeyError (no such user)."""
    _confine(_prepare(confinement, machine), machine)


@dataclass(frozen=True, slots=True)
class _Plan:
    confinement: Confinement
    readable: list[str]
    mounts: MountPlan


def _prepare(confinement: Confinement, machine: Machine) -> _Plan:
    if confinement.user and machine.root:
        ownership.hand_over(confinement)
    readable = [*readable_paths.readable(confinement.protected, confinement.outside), *confinement.read]
    if machine.namespaces == "none":
        return _Plan(confinement, readable, NOTHING)
    mounts = mount_plan.plan(
        confinement.protected,
        readable,
        confinement.write,
        named=(*confinement.outside, *readable_paths.list_named()),
        home=os.path.expanduser("~"),
        other_user=bool(confinement.user),
    )
    return _Plan(confinement, readable, mounts)


def _confine(plan: _Plan, machine: Machine) -> None:
    confinement = plan.confinement
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the memory of a crashed process is not for its folder
    if machine.namespaces != "none":
        namespaces.enter(own=machine.namespaces == "own", plan=plan.mounts)
    if confinement.user:
        privileges.become(confinement.user)
    privileges.forbid_gains()
    if machine.root or machine.namespaces == "user":
        privileges.drop()
    if machine.landlock:
        write = (*confinement.write, readable_paths.SHARED_MEMORY)
        landlock.restrict(plan.readable, write, readable_paths.devices())
    if machine.seccomp:
        seccomp.restrict()
