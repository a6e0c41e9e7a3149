"""How users' code is confined on this machine: the operator's policy, and what the machine makes of it."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mizzen.confinement import landlock, pid_namespace
from mizzen.confinement.cgroups import hierarchies
from mizzen.confinement.cgroups.hierarchies import Hierarchies
from mizzen.confinement.machine import Machine
from mizzen.engines.local.confinements import ConfinementPolicy
from mizzen.errors import Fault, Invalid
from mizzen.kinds.schema.resource import Condition
from mizzen.settings import Settings
from mizzen.supervisor.data_dir import Home

CONDITION = "ModelsConfined"
_WITHOUT_NAMESPACES = (
    "mount namespaces: models can connect to sockets of other services below /run and /tmp, see the names of "
    "processes, and change modes and times of files of the plane's user"
)
_WITHOUT_FILES = "mount namespaces: code of a version can read what the plane's user can, also the plane's keys"


@dataclass(frozen=True, slots=True)
class ConfinementReport:
    """What protects the plane from users' code here."""

    confined: bool
    """Whether the plane's files are out of reach."""
    layers: tuple[str, ...]
    missing: tuple[str, ...]
    """What this machine or the settings do not offer, and what follows from it."""

    @property
    def sentence(self) -> str:
        if not self.layers:
            return "; ".join(self.missing)
        without = f"; without {'; without '.join(self.missing)}" if self.missing else ""
        return f"models are confined by {', '.join(self.layers)}{without}"


def policy_of(settings: Settings, home: Home, offered: Machine) -> ConfinementPolicy:
    """Raises Invalid if the machine does not offer what the settings require."""
    faults = [*_faults_of_user(settings, offered), *_faults_of_paths(settings, home)]
    if settings.confine_models == "required" and not report(settings, offered).confined:
        fault = "this machine offers neither Landlock (Linux 5.13 or later) nor mount namespaces"
        faults.append(Fault("confine_models", fault))
    if faults:
        raise Invalid.of("settings", tuple(faults))
    certificate = settings.user_certificate
    return ConfinementPolicy(
        enabled=settings.confine_models != "off",
        read=settings.model_read_paths,
        write=settings.model_write_paths,
        user=settings.run_models_as,
        pids=settings.model_pids or None,
        protected=(str(certificate[1]),) if certificate is not None else (),
    )


def _faults_of_user(settings: Settings, offered: Machine) -> Iterator[Fault]:
    name, user = "run_models_as", settings.run_models_as
    if not user:
        return
    if os.getuid() != 0:
        yield Fault(name, "only a plane that root runs can run models as another user")
    elif not _is_user(user):
        yield Fault(name, f"there is no user '{user}' on this machine")
    elif settings.confine_models == "off":
        yield Fault(name, "has no effect with confine_models = off")
    elif offered.namespaces != "own":
        yield Fault(name, "needs mount namespaces, which this machine does not offer (CAP_SYS_ADMIN is missing)")


def _faults_of_paths(settings: Settings, home: Home) -> Iterator[Fault]:
    """What models may write must not contain the plane's own files, nor lie among them."""
    for name in ("model_read_paths", "model_write_paths"):
        for path in getattr(settings, name):
            if not os.path.isabs(path):
                yield Fault(name, f"'{path}' must be an absolute path")
    for path in filter(os.path.isabs, settings.model_write_paths):
        real = Path(path).resolve()
        if any(real.is_relative_to(own) or own.is_relative_to(real) for own in (home.data_dir, home.run.resolve())):
            yield Fault("model_write_paths", f"'{path}' contains files of the plane; name another folder")


def report(
    settings: Settings,
    offered: Machine,
    groups: Hierarchies | None = None,
    namespace: pid_namespace.Access | None = None,
) -> ConfinementReport:
    """`groups`, `namespace`: what holds processes together; None: what this machine offers."""
    if settings.confine_models == "off":
        why = "models are not confined (confine_models = off): code of a version can read the plane's keys"
        return ConfinementReport(False, (), (why,))
    layers, missing = [], []
    if settings.run_models_as:
        layers.append(f"the user {settings.run_models_as}")
    if offered.landlock:
        layers.append(f"Landlock (version {offered.landlock})")
        if offered.landlock < landlock.SCOPED_SINCE:
            missing.append("a limit on signals, which needs Linux 6.12")
    else:
        missing.append("Landlock, which needs Linux 5.13")
    if offered.seccomp:
        layers.append("seccomp")
    else:
        missing.append("seccomp filters")
    if offered.namespaces == "none":
        missing.append(_WITHOUT_NAMESPACES if offered.landlock else _WITHOUT_FILES)
    else:
        layers.append("a mount namespace")
        if offered.namespaces == "user":
            missing.append("a private list of processes, which needs root")
    groups = hierarchies.detect() if groups is None else groups
    held, lacking = _containment(settings, offered, groups, namespace or pid_namespace.detect())
    layers += held
    missing += lacking
    return ConfinementReport(offered.protects_files, tuple(layers), tuple(missing))


def _containment(
    settings: Settings, offered: Machine, groups: Hierarchies, namespace: pid_namespace.Access
) -> tuple[list[str], list[str]]:
    """What holds a process and its descendants together, and what limits them."""
    held, lacking = [], []
    if groups.kill:
        enforced = [name for name in hierarchies.CONTROLLERS if name in groups.limits]
        held.append(f"cgroups ({', '.join(enforced)})" if enforced else "cgroups")
        if offered.root and not offered.landlock and not settings.run_models_as:
            lacking.append("a barrier around cgroups: code of root can leave its own, which Landlock prevents")
    elif namespace != "none":
        held.append("a PID namespace")
    else:
        lacking.append("cgroups and PID namespaces: what a model starts can outlive it")
    if groups.missing:
        lacking.append(f"limits of {', '.join(groups.missing)} for a model as a whole, which need cgroups")
    return held, lacking


def condition(found: ConfinementReport) -> Condition:
    """For the Node of this machine."""
    message = found.sentence
    if found.confined:
        return Condition(type=CONDITION, status="True", reason="Confined", message=message)
    if not found.layers:
        return Condition(type=CONDITION, status="False", reason="NotConfined", message=message)
    return Condition(type=CONDITION, status="False", reason="FilesInReach", message=message)


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
