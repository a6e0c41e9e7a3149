"""How users' code is confined on this machine: the operator's policy, and what the machine makes of it."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

from mizzen.confinement import landlock, machine, pid_namespace
from mizzen.confinement.cgroups import hierarchies
from mizzen.confinement.cgroups.hierarchies import Hierarchies
from mizzen.confinement.machine import Machine
from mizzen.engines.local.confinements import ConfinementPolicy
from mizzen.errors import Fault, Invalid
from mizzen.kinds.schema.resource import Condition
from mizzen.settings import Settings

CONDITION = "ModelsConfined"


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


def policy_of(settings: Settings) -> ConfinementPolicy:
    """Raises Invalid if the machine does not offer what the settings require."""
    enabled = settings.confine_models != "off"
    faults = []
    if settings.run_models_as and os.getuid() != 0:
        faults.append(Fault("run_models_as", "only a plane that root runs can run models as another user"))
    elif settings.run_models_as and not _is_user(settings.run_models_as):
        faults.append(Fault("run_models_as", f"there is no user '{settings.run_models_as}' on this machine"))
    elif settings.run_models_as and not enabled:
        faults.append(Fault("run_models_as", "has no effect with confine_models = off"))
    if settings.confine_models == "required" and not report(settings, machine.detect()).confined:
        fault = "this machine offers neither Landlock (Linux 5.13 or later) nor another user (run_models_as)"
        faults.append(Fault("confine_models", fault))
    for name in ("model_read_paths", "model_write_paths"):
        relative = [path for path in getattr(settings, name) if not os.path.isabs(path)]
        faults += [Fault(name, f"'{path}' must be an absolute path") for path in relative]
    if faults:
        raise Invalid.of("settings", tuple(faults))
    certificate = settings.user_certificate
    return ConfinementPolicy(
        enabled=enabled,
        read=settings.model_read_paths,
        write=settings.model_write_paths,
        user=settings.run_models_as,
        pids=settings.model_pids or None,
        protected=(str(certificate[1]),) if certificate is not None else (),
    )


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
        missing.append("Landlock, which needs Linux 5.13: code of a version can read what the plane's user can")
    if offered.seccomp:
        layers.append("seccomp")
    else:
        missing.append("seccomp filters")
    if offered.namespaces == "none":
        missing.append("mount namespaces: sockets below /run and names of other processes can be seen")
    else:
        layers.append("a mount namespace")
        if offered.namespaces == "user":
            missing.append("a private list of processes, which needs root")
    groups = hierarchies.detect() if groups is None else groups
    held, lacking = _containment(settings, offered, groups, namespace or pid_namespace.detect())
    layers += held
    missing += lacking
    return ConfinementReport(bool(offered.landlock or settings.run_models_as), tuple(layers), tuple(missing))


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
