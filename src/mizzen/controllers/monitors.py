"""Monitor -> the tool that shows how a model is trained: a process that answers HTTP, or our own viewer, which is none.

Which tool follows from the model's framework, unless the Monitor names one. What is not installed or not known is
replaced by our own viewer, and the condition says so: somebody who wants to see scalars sees them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from mizzen import frameworks
from mizzen.kinds import catalog
from mizzen.kinds.model import ModelStatus, version_object_name
from mizzen.kinds.monitor import SCALARS, TENSORBOARD, MonitorSpec, MonitorStatus, first, page_path, tool_path
from mizzen.kinds.parts import env
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Condition, Meta, Ref, Resource
from mizzen.kinds.workload import MODEL_LABEL, WorkloadStatus
from mizzen.reconcile.controller import Decision, Presence, find, owners
from mizzen.reconcile.reverse_index import Mentions
from mizzen.runs import paths
from mizzen.stores.all_pages import whole
from mizzen.stores.store import Store, Where

AGAIN = 60.0
"""Seconds after which a tool that was missing is looked for again: nobody tells when one is installed."""
RELOAD_SECONDS = 5
"""Between two looks of TensorBoard at its files."""

READY_PATH = "/ready"
"""What a tool answers to everybody, and nothing else (`mizzen.showing.gate`)."""

PACKAGES = {TENSORBOARD: "tensorboard"}
"""What a tool needs that is not part of a plain installation."""


@dataclass(frozen=True, slots=True)
class MonitorFacts:
    resource: Resource
    children: tuple[Resource, ...] = ()
    model: Resource | None = None
    framework: str = ""
    """Of the model, else of its newest version; empty: nobody said."""
    others: tuple[Resource, ...] = ()
    """Monitors of the same model."""
    installed: frozenset[str] = frozenset()
    """Tools that can be started."""


@dataclass(frozen=True, slots=True)
class Choice:
    tool: str
    reason: str = "Showing"
    why: str = ""
    """Empty: it is what was asked for."""


class Monitors:
    kind = "Monitor"
    watches: tuple[str | Presence, ...] = ("Monitor", "Model", Presence("ModelVersion"), "Workload")

    def __init__(self, context: Context, data_dir: Path, *, control_url: str, installed: Callable[[str], bool]) -> None:
        """`control_url`: where the plane answers; its paths lead to tools. `installed`: whether the plane's own
        interpreter finds a package."""
        self._context = context
        self._data_dir = data_dir.absolute()
        self._control_url = control_url.rstrip("/")
        self._installed = installed
        self._named = Mentions()

    def keys(self, resource: Resource) -> Iterable[Ref]:
        if resource.kind == "Workload":
            return owners(resource, self.kind)
        name = catalog.model_of(resource)
        return self._named.naming(Ref("Model", name, resource.meta.namespace)) if name else ()

    async def load(self, store: Store, ref: Ref) -> MonitorFacts | None:
        resource = await find(store, ref)
        if resource is None:
            self._named.forget(ref)
            return None
        children = await whole(store, "Workload", Where(namespace=ref.namespace, owner=resource.meta.uid))
        name = catalog.model_of(resource)
        if resource.deleting or not name:
            self._named.forget(ref)
            return MonitorFacts(resource, children)
        # Noted before it is read: what is created in between then wakes this key again.
        self._named.note(ref, (Ref("Model", name, ref.namespace),))
        model = await find(store, Ref("Model", name, ref.namespace))
        of_model = Where(namespace=ref.namespace, fields={"spec.modelName": name})
        return MonitorFacts(
            resource,
            children,
            model,
            await _framework(store, model) if model is not None else "",
            tuple(each for each in await whole(store, self.kind, of_model) if each.meta.uid != resource.meta.uid),
            frozenset(tool for tool, package in PACKAGES.items() if self._installed(package)),
        )

    def decide(self, facts: MonitorFacts, now: datetime) -> Decision:
        resource = facts.resource
        if resource.deleting:
            return Decision()
        accepted, findings = catalog.accepted(resource, self._context)
        if findings.faults:  # whatever runs, runs on
            ready = _not_ready(accepted.reason, accepted.message)
            return Decision(facts.children, MonitorStatus(conditions=(accepted, ready)))
        spec = MonitorSpec.of(resource)
        obstacle = _obstacle(facts, spec)
        if obstacle is not None:
            return Decision(status=MonitorStatus(conditions=(accepted, obstacle)))
        choice = chosen(spec.tool, facts.framework, facts.installed)
        model = Ref("Model", spec.model_name, resource.meta.namespace)
        wanted = self._workload(resource, spec, model) if choice.tool == TENSORBOARD else None
        ready = _showing(choice) if wanted is None else _answering(facts, wanted)
        path = page_path(model) if wanted is None else tool_path(model)
        status = MonitorStatus(
            conditions=(accepted, ready), url=f"{self._control_url}{path}", tool=choice.tool
        )  # fmt: skip
        again = AGAIN if choice.reason == "ToolMissing" else None
        return Decision((wanted,) if wanted is not None else (), status, again)

    def _workload(self, monitor: Resource, spec: MonitorSpec, model: Ref) -> Resource:
        """Its name holds a part of the uid: `<name>.<word>` could be a version that somebody serves."""
        mark = hashlib.sha256(monitor.meta.uid.encode()).hexdigest()[:8]
        meta = Meta(f"{monitor.meta.name}.monitor-{mark}", model.namespace, labels={MODEL_LABEL: model.name})
        return Resource("Workload", meta, tensorboard(self._data_dir, model, spec))


def chosen(asked: str | None, framework: str, installed: frozenset[str]) -> Choice:
    """The tool to show, and why it is not the one that was asked for or that the framework has."""
    tool = asked or _tool_of(framework)
    if tool is None:
        return Choice(SCALARS, "ToolUnknown", f"nothing is known of framework '{framework}'; scalars are shown")
    if tool == SCALARS or tool in installed:
        return Choice(tool)
    if tool not in PACKAGES:
        return Choice(SCALARS, "ToolUnknown", f"nothing here is called '{tool}'; scalars are shown")
    install = f"pip install 'mizzen[{tool}]'"
    return Choice(SCALARS, "ToolMissing", f"{tool} is not installed, so scalars are shown; to have it: {install}")


def tensorboard(data_dir: Path, model: Ref, spec: MonitorSpec) -> dict[str, Any]:
    """The spec of its Workload: plain data, and nothing that says nothing."""
    flags: Mapping[str, object] = {
        "logdir": paths.events_of_model(data_dir, model.namespace, model.name),
        "host": "127.0.0.1",
        "port": "$(MIZZEN_PORT)",
        "path_prefix": tool_path(model).rstrip("/"),
        "reload_interval": RELOAD_SECONDS,
        "window_title": f"{model.name} · TensorBoard",
    }
    secret = {name: ref.wire() for name, ref in env.secret_values(spec.env).items()}
    given = {"env": env.plain_values(spec.env), "secretEnv": secret}
    return {
        "purpose": "show",
        "command": ["python", "-m", "mizzen.showing.tensorboard", *(f"--{flag}={flags[flag]}" for flag in flags)],
        "readyPath": READY_PATH,
        "replicas": 1,
        "restart": "Always",
        **{field: value for field, value in given.items() if value},
    }


def _tool_of(framework: str) -> str | None:
    """None: nobody knows such a framework. Without any, scalars are all that can be expected."""
    known = frameworks.find(framework) if framework else None
    if known is None:
        return None if framework else SCALARS
    return known.monitor


def _obstacle(facts: MonitorFacts, spec: MonitorSpec) -> Condition | None:
    if facts.model is None or facts.model.deleting:
        return _not_ready("ModelNotFound", f"there is no model '{spec.model_name}'")
    counts = first((facts.resource, *facts.others))
    if counts is not None and counts.meta.uid != facts.resource.meta.uid:
        return _not_ready("OtherMonitor", f"{counts.ref} monitors model '{spec.model_name}' already; it has one")
    return None


def _showing(choice: Choice) -> Condition:
    message = choice.why or "scalars of all versions, as our own viewer shows them"
    return Condition(type="Ready", status="True", reason=choice.reason, message=message)


def _answering(facts: MonitorFacts, wanted: Resource) -> Condition:
    there = next((child for child in facts.children if child.meta.name == wanted.meta.name), None)
    told = WorkloadStatus.of(there).condition("Available") if there is not None and not there.deleting else None
    if told is None or told.reason == "NoReplicas":
        return _not_ready("Starting", "TensorBoard is starting")
    if not told.true:
        return _not_ready(told.reason, told.message or "TensorBoard does not answer yet")
    return Condition(type="Ready", status="True", reason="Showing", message="TensorBoard answers")


def _not_ready(reason: str, message: str) -> Condition:
    return Condition(type="Ready", status="False", reason=reason, message=message)


async def _framework(store: Store, model: Resource) -> str:
    said = model.spec.get("framework")
    if isinstance(said, str) and said:
        return said
    highest = ModelStatus.of(model).highest_version
    ref = Ref("ModelVersion", version_object_name(model.meta.name, str(highest)), model.meta.namespace)
    version = await find(store, ref) if highest else None
    found = version.spec.get("framework") if version is not None else None
    return found if isinstance(found, str) else ""
