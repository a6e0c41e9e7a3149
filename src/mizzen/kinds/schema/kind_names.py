"""How kinds are called and shown: all of them, without what they hold.

Short commands need no more than this, and building all specs would take most of their time: nothing of that is
imported here. `catalog` adds the rest.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from mizzen.errors import NotFound

CLOSE = 0.75
"""The ratio of difflib from which one word may have been meant for another."""


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    path: str
    """Dots into the wire form, or `condition:<Type>` for the word a condition shows."""
    wide: bool = False
    """Shown only where there is room: `-o wide`."""


@dataclass(frozen=True, slots=True)
class Called:
    name: str
    plural: str
    short: str
    columns: tuple[Column, ...]
    about: str = ""
    """What it is, in one sentence."""
    other_names: tuple[str, ...] = ()
    """Names of the kind in files that are read as this one."""
    internal: bool = False
    """Written by controllers only; people may read it."""
    everyday: bool = False
    """Shown by `kubectl get all`."""
    virtual: bool = False
    """The store makes these from its history; nobody writes them, and they have no controller."""

    @property
    def singular(self) -> str:
        return self.name.lower()

    @property
    def categories(self) -> tuple[str, ...]:
        """Words that kubectl takes for several kinds at once: `kubectl get mizzen` shows what people wrote, and
        `kubectl get all` what of it they look for every day."""
        return () if self.internal else ("mizzen", "all") if self.everyday else ("mizzen",)


ALL: tuple[Called, ...] = (
    Called(
        "Model", "models", "mz",
        (Column("CURRENT", "status.current.version"), Column("HIGHEST", "status.highestVersion"),
         Column("BY", "status.current.actor"), Column("FRAMEWORK", "spec.framework", wide=True)),
        about="A named group of versions, one of which is current.",
        everyday=True,
    ),
    Called(
        "ModelVersion", "modelversions", "mv",
        (Column("MODEL", "spec.modelName"), Column("VERSION", "spec.version"), Column("FRAMEWORK", "spec.framework"),
         Column("SERVABLE", "condition:Servable"), Column("CREATED-BY", "spec.createdBy", wide=True)),
        about="One immutable version of a model: its code, its files with their digests, and who made it.",
    ),
    Called(
        "TrainingJob", "trainingjobs", "tj",
        (Column("MODEL", "spec.modelName"), Column("VERSION", "spec.version"), Column("STATE", "status.state"),
         Column("STEP", "status.progress.step"), Column("CHECKPOINTS", "status.checkpoints"),
         Column("RESTARTS", "status.restarts", wide=True), Column("PRIORITY", "spec.priority", wide=True),
         Column("ACCEPTED", "condition:Accepted", wide=True)),
        about="One job set, all its replicas, that trains a version of a model.",
        everyday=True,
        other_names=("TrainingModel",),
    ),
    Called(
        "InferenceModel", "inferencemodels", "im",
        (Column("MODEL", "spec.modelName"), Column("VERSION", "status.servingVersion"),
         Column("READY", "condition:Ready"), Column("REPLICAS", "status.readyReplicas"), Column("URL", "status.url"),
         Column("DESIRED", "status.desiredReplicas", wide=True),
         Column("LAYER", "spec.deployToLayer", wide=True), Column("RESTARTS", "status.restarts", wide=True)),
        about="One serving service: a version of a model, a place, and a number of replicas.",
        everyday=True,
    ),
    Called(
        "MLGraph", "mlgraphs", "mlg",
        (Column("ACCEPTED", "condition:Accepted"), Column("READY", "condition:Ready"), Column("URL", "status.url")),
        about="A directed acyclic graph of callable nodes with routes and merges, called as a model is.",
        everyday=True,
    ),
    Called(
        "Rollout", "rollouts", "ro",
        (Column("TARGET", "spec.target.name"), Column("ACCEPTED", "condition:Accepted")),
        about="A staged change of what serves a name.",
        everyday=True,
    ),
    Called(
        "Monitor", "monitors", "mon",
        (Column("MODEL", "spec.modelName"), Column("TOOL", "status.tool"), Column("READY", "condition:Ready"),
         Column("URL", "status.url"), Column("ACCEPTED", "condition:Accepted", wide=True)),
        about="One monitoring tool over a model.",
    ),
    Called(
        "Application", "applications", "app",
        (Column("PHASE", "status.phase"), Column("ACCEPTED", "condition:Accepted")),
        about="Components, traits, policies and a workflow that brings them up.",
        everyday=True,
    ),
    Called(
        "Initializer", "initializers", "init",
        (Column("PHASE", "status.phase"), Column("ACCEPTED", "condition:Accepted")),
        about="Components and steps that prepare infrastructure.",
    ),
    Called(
        "Node", "nodes", "mznode",
        (Column("LAYER", "spec.layer"), Column("ADDRESS", "spec.address"), Column("ACCEPTED", "condition:Accepted")),
        about="A machine of the plane, in the cloud or at the edge.",
    ),
    Called(
        "RoleBinding", "rolebindings", "mzrb",
        (Column("SUBJECTS", "spec.subjects"), Column("VERBS", "spec.verbs"), Column("MODEL", "spec.target.model"),
         Column("ALIAS", "spec.target.alias"), Column("ACCEPTED", "condition:Accepted")),
        about="Who may read, predict with, write or administer what.",
    ),
    Called(
        "Revision", "revisions", "rev",
        (Column("KIND", "spec.kind"), Column("OBJECT", "spec.name"), Column("NUMBER", "spec.number"),
         Column("ACTION", "spec.action"), Column("ACTOR", "spec.actor")),
        about="One entry of history: a change of a spec, or a decision, with who took it and when.",
        internal=True, virtual=True,
    ),
    Called(
        "Workload", "workloads", "wl",
        (Column("PURPOSE", "spec.purpose"), Column("AVAILABLE", "condition:Available")),
        about="Run this command, here, so many times.",
        internal=True,
    ),
)  # fmt: skip

BY_NAME: dict[str, Called] = {kind.name: kind for kind in ALL}


def find(word: str) -> Called:
    """A kind by any of its names, in any case: Model, model, models, mz. NotFound, with what was probably meant."""
    names = {
        name.lower(): kind
        for kind in ALL
        for name in (kind.singular, kind.plural, kind.short, f"{kind.plural}.mizzen.dev", *_others(kind))
    }
    kind = names.get(word.lower())
    if kind is not None:
        return kind
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=CLOSE)
    hint = f"did you mean '{close[0]}'?" if close else f"kinds are {', '.join(kind.singular for kind in ALL)}"
    raise NotFound(f"no kind '{word}'", hint=hint)


def _others(kind: Called) -> tuple[str, ...]:
    return tuple(word for name in kind.other_names for word in (name, f"{name}s"))
