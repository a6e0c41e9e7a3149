"""The names and columns of all kinds, without their specs.

Short commands need no more than this, and building all specs would take most of their time. So no spec is imported
here; `catalog` adds the rest.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from mizzen.errors import NotFound

CLOSE = 0.75
"""The difflib ratio from which a word counts as a misspelling of another."""


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    path: str
    """A dotted path into the wire form, or `condition:<Type>` for `True` or the reason of a condition."""
    wide: bool = False
    """Shown only with `-o wide`."""


@dataclass(frozen=True, slots=True)
class KindNames:
    name: str
    plural: str
    short: str
    columns: tuple[Column, ...]
    about: str = ""
    """What it is, in one sentence."""
    other_names: tuple[str, ...] = ()
    """Other names that manifests may use for this kind."""
    internal: bool = False
    """Written by controllers only; people may read it."""
    everyday: bool = False
    """Shown by `kubectl get all`."""
    planned: bool = False
    """Validated, stored and versioned, but nothing runs it yet."""
    virtual: bool = False
    """Derived by the store from its history: not writable, and without a controller."""

    @property
    def description(self) -> str:
        """What it is, and whether it is only planned."""
        note = "Planned: Mizzen validates, stores and versions it, but does not act on it yet."
        return f"{self.about} {note}" if self.planned else self.about

    @property
    def singular(self) -> str:
        return self.name.lower()

    @property
    def categories(self) -> tuple[str, ...]:
        """Words that kubectl accepts for several kinds: `kubectl get mizzen` shows the kinds that people write, and
        `kubectl get all` those they use every day."""
        return () if self.internal else ("mizzen", "all") if self.everyday else ("mizzen",)


ALL: tuple[KindNames, ...] = (
    KindNames(
        "Model", "models", "mz",
        (Column("CURRENT", "status.current.version"), Column("HIGHEST", "status.highestVersion"),
         Column("BY", "status.current.actor"), Column("FRAMEWORK", "spec.framework", wide=True)),
        about="A named group of versions, one of which is current.",
        everyday=True,
    ),
    KindNames(
        "ModelVersion", "modelversions", "mv",
        (Column("MODEL", "spec.modelName"), Column("VERSION", "spec.version"), Column("FRAMEWORK", "spec.framework"),
         Column("SERVABLE", "condition:Servable"), Column("CREATED-BY", "spec.createdBy", wide=True)),
        about="One immutable version of a model: its code, its files with their digests, and its author.",
    ),
    KindNames(
        "TrainingJob", "trainingjobs", "tj",
        (Column("MODEL", "spec.modelName"), Column("VERSION", "spec.version"), Column("STATE", "status.state"),
         Column("STEP", "status.progress.step"), Column("CHECKPOINTS", "status.checkpoints"),
         Column("RESTARTS", "status.restarts", wide=True), Column("PRIORITY", "spec.priority", wide=True),
         Column("ACCEPTED", "condition:Accepted", wide=True)),
        about="A training run of a model version: one job set with all its replicas.",
        everyday=True,
        other_names=("TrainingModel",),
    ),
    KindNames(
        "InferenceModel", "inferencemodels", "im",
        (Column("MODEL", "spec.modelName"), Column("VERSION", "status.servingVersion"),
         Column("READY", "condition:Ready"), Column("REPLICAS", "status.readyReplicas"), Column("URL", "status.url"),
         Column("DESIRED", "status.desiredReplicas", wide=True),
         Column("LAYER", "spec.deployToLayer", wide=True), Column("RESTARTS", "status.restarts", wide=True)),
        about="A served model: which version runs, where, and with how many replicas.",
        everyday=True,
    ),
    KindNames(
        "MLGraph", "mlgraphs", "mlg",
        (Column("ACCEPTED", "condition:Accepted"), Column("READY", "condition:Ready"), Column("URL", "status.url")),
        about="A directed acyclic graph of models and services with routes and merges, called like a model.",
        everyday=True,
    ),
    KindNames(
        "Rollout", "rollouts", "ro",
        (Column("TARGET", "spec.target.name"), Column("ACCEPTED", "condition:Accepted")),
        about="A staged change to a new version, with weights, pauses and analyses.",
        everyday=True,
        planned=True,
    ),
    KindNames(
        "Monitor", "monitors", "mon",
        (Column("MODEL", "spec.modelName"), Column("TOOL", "status.tool"), Column("READY", "condition:Ready"),
         Column("URL", "status.url"), Column("ACCEPTED", "condition:Accepted", wide=True)),
        about="A monitoring tool for the training runs of a model.",
    ),
    KindNames(
        "Application", "applications", "app",
        (Column("PHASE", "status.phase"), Column("ACCEPTED", "condition:Accepted")),
        about="Components, traits and policies, and the workflow that applies them.",
        everyday=True,
        planned=True,
    ),
    KindNames(
        "Initializer", "initializers", "init",
        (Column("PHASE", "status.phase"), Column("ACCEPTED", "condition:Accepted")),
        about="Components, and the steps that prepare infrastructure with them.",
        planned=True,
    ),
    KindNames(
        "Node", "nodes", "mznode",
        (Column("LAYER", "spec.layer"), Column("ADDRESS", "spec.address"), Column("ACCEPTED", "condition:Accepted")),
        about="A machine of the plane, in the cloud or at the edge.",
    ),
    KindNames(
        "RoleBinding", "rolebindings", "mzrb",
        (Column("SUBJECTS", "spec.subjects"), Column("VERBS", "spec.verbs"), Column("MODEL", "spec.target.model"),
         Column("ALIAS", "spec.target.alias"), Column("ACCEPTED", "condition:Accepted")),
        about="Grants subjects the right to read, predict with, write or administer a model or a namespace.",
    ),
    KindNames(
        "Revision", "revisions", "rev",
        (Column("KIND", "spec.kind"), Column("OBJECT", "spec.name"), Column("NUMBER", "spec.number"),
         Column("ACTION", "spec.action"), Column("ACTOR", "spec.actor")),
        about="One entry of an object's history: a change of its spec or a decision, with the actor and the time.",
        internal=True, virtual=True,
    ),
    KindNames(
        "Workload", "workloads", "wl",
        (Column("PURPOSE", "spec.purpose"), Column("AVAILABLE", "condition:Available")),
        about="A command to run, with its place and its number of replicas.",
        internal=True,
    ),
)  # fmt: skip

BY_NAME: dict[str, KindNames] = {kind.name: kind for kind in ALL}


def find(word: str) -> KindNames:
    """A kind by any of its names, in any case: Model, model, models, mz. Raises NotFound with a suggestion."""
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


def _others(kind: KindNames) -> tuple[str, ...]:
    return tuple(word for name in kind.other_names for word in (name, f"{name}s"))
