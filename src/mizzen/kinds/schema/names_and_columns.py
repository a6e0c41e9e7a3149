"""The names and columns of all kinds, without their specs.

Short commands need no more than this, and building all specs would take most of their time. So no spec is imported
here; `catalog` adds the rest.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from mizzen.errors import NotFound

CLOSE = 0.75
"""The difflib ratio from which a word counts as a misspelling of another."""


@dataclass(frozen=True, slots=True)
class PrinterColumn:
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
    columns: tuple[PrinterColumn, ...]
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


def _names(
    name: str, plural: str, short: str, columns: dict[str, str], *, wide: dict[str, str] | None = None, **more: Any
) -> KindNames:
    """Columns are given as paths by title; those in `wide` follow the others."""
    shown = (PrinterColumn(title, path) for title, path in columns.items())
    hidden = (PrinterColumn(title, path, wide=True) for title, path in (wide or {}).items())
    return KindNames(name, plural, short, (*shown, *hidden), **more)


ALL: tuple[KindNames, ...] = (
    _names(
        "Model", "models", "mz",
        {"CURRENT": "status.current.version", "HIGHEST": "status.highestVersion", "BY": "status.current.actor"},
        wide={"FRAMEWORK": "spec.framework"},
        about="A named group of versions, one of which is current.",
        everyday=True,
    ),
    _names(
        "ModelVersion", "modelversions", "mv",
        {"MODEL": "spec.modelName", "VERSION": "spec.version", "FRAMEWORK": "spec.framework",
         "SERVABLE": "condition:Servable"},
        wide={"CREATED-BY": "spec.createdBy"},
        about="One immutable version of a model: its code, its files with their digests, and its author.",
    ),
    _names(
        "TrainingJob", "trainingjobs", "tj",
        {"MODEL": "spec.modelName", "VERSION": "spec.version", "STATE": "status.state",
         "STEP": "status.progress.step", "CHECKPOINTS": "status.checkpoints"},
        wide={"RESTARTS": "status.restarts", "PRIORITY": "spec.priority", "ACCEPTED": "condition:Accepted"},
        about="A training run of a model version: one job set with all its replicas.",
        everyday=True,
        other_names=("TrainingModel",),
    ),
    _names(
        "InferenceModel", "inferencemodels", "im",
        {"MODEL": "spec.modelName", "VERSION": "status.servingVersion", "READY": "condition:Ready",
         "REPLICAS": "status.readyReplicas", "URL": "status.url"},
        wide={"DESIRED": "status.desiredReplicas", "LAYER": "spec.deployToLayer", "RESTARTS": "status.restarts"},
        about="A served model: which version runs, where, and with how many replicas.",
        everyday=True,
    ),
    _names(
        "MLGraph", "mlgraphs", "mlg",
        {"ACCEPTED": "condition:Accepted", "READY": "condition:Ready", "URL": "status.url"},
        about="A directed acyclic graph of models and services with routes and merges, called like a model.",
        everyday=True,
    ),
    _names(
        "Rollout", "rollouts", "ro",
        {"TARGET": "spec.target.name", "ACCEPTED": "condition:Accepted"},
        about="A staged change to a new version, with weights, pauses and analyses.",
        everyday=True,
        planned=True,
    ),
    _names(
        "Monitor", "monitors", "mon",
        {"MODEL": "spec.modelName", "TOOL": "status.tool", "READY": "condition:Ready", "URL": "status.url"},
        wide={"ACCEPTED": "condition:Accepted"},
        about="A monitoring tool for the training runs of a model.",
    ),
    _names(
        "Application", "applications", "app",
        {"PHASE": "status.phase", "ACCEPTED": "condition:Accepted"},
        about="Components, traits and policies, and the workflow that applies them.",
        everyday=True,
        planned=True,
    ),
    _names(
        "Initializer", "initializers", "init",
        {"PHASE": "status.phase", "ACCEPTED": "condition:Accepted"},
        about="Components, and the steps that prepare infrastructure with them.",
        planned=True,
    ),
    _names(
        "Node", "nodes", "mznode",
        {"LAYER": "spec.layer", "ADDRESS": "spec.address", "ACCEPTED": "condition:Accepted"},
        about="A machine of the plane, in the cloud or at the edge.",
    ),
    _names(
        "RoleBinding", "rolebindings", "mzrb",
        {"SUBJECTS": "spec.subjects", "VERBS": "spec.verbs", "MODEL": "spec.target.model",
         "ALIAS": "spec.target.alias", "ACCEPTED": "condition:Accepted"},
        about="Grants subjects the right to read, predict with, write or administer a model or a namespace.",
    ),
    _names(
        "Revision", "revisions", "rev",
        {"KIND": "spec.kind", "OBJECT": "spec.name", "NUMBER": "spec.number", "ACTION": "spec.action",
         "ACTOR": "spec.actor"},
        about="One entry of an object's history: a change of its spec or a decision, with the actor and the time.",
        internal=True, virtual=True,
    ),
    _names(
        "Workload", "workloads", "wl",
        {"PURPOSE": "spec.purpose", "AVAILABLE": "condition:Available"},
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
