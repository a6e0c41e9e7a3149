"""The controller of Monitors: each shows a model's training in TensorBoard, or in the built-in viewer.

TensorBoard runs as a process of its own; the built-in viewer needs none. The model's framework determines the tool
unless the Monitor names one. A tool that is unknown or not installed is replaced by the built-in viewer, and the
condition says so: users can always see scalars.
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
from mizzen.reconcile.controller import Decision, Presence, find, find_owners
from mizzen.reconcile.reverse_index import ReverseIndex
from mizzen.reconcile.workloads import false_condition, find_child
from mizzen.runs import paths
from mizzen.stores.all_pages import whole, workloads_of
from mizzen.stores.store import Store, Where

RECHECK_SECONDS = 60.0
"""Seconds until a missing tool is looked up again: an installation triggers no event."""
RELOAD_SECONDS = 5
"""Seconds between two reads of the event files by TensorBoard."""

READY_PATH = "/ready"
"""The only path that a tool serves to callers without its key (`mizzen.showing.gate`)."""

PACKAGES = {TENSORBOARD: "tensorboard"}
"""The package that a tool needs and that a plain installation lacks."""


@dataclass(frozen=True, slots=True)
class MonitorFacts:
    resource: Resource
    children: tuple[Resource, ...] = ()
    model: Resource | None = None
    framework: str = ""
    """That of the model, or else of its newest version; empty: unknown."""
    others: tuple[Resource, ...] = ()
    """Monitors of the same model."""
    installed: frozenset[str] = frozenset()
    """Tools that can be started."""


@dataclass(frozen=True, slots=True)
class ToolChoice:
    tool: str
    reason: str = "Showing"
    why: str = ""
    """Empty: it is the requested tool."""


class ModelMonitors:
    kind = "Monitor"
    watches: tuple[str | Presence, ...] = ("Monitor", "Model", Presence("ModelVersion"), "Workload")

    def __init__(self, context: Context, data_dir: Path, *, control_url: str, installed: Callable[[str], bool]) -> None:
        """`control_url`: the URL of the control API, whose paths lead to tools. `installed` returns whether the plane's
        interpreter finds a package."""
        self._context = context
        self._data_dir = data_dir.absolute()
        self._control_url = control_url.rstrip("/")
        self._installed = installed
        self._named = ReverseIndex()

    def keys(self, resource: Resource) -> Iterable[Ref]:
        if resource.kind == "Workload":
            return find_owners(resource, self.kind)
        name = catalog.model_of(resource)
        return self._named.keys_for(Ref("Model", name, resource.meta.namespace)) if name else ()

    async def load(self, store: Store, ref: Ref) -> MonitorFacts | None:
        resource = await find(store, ref)
        if resource is None:
            self._named.remove(ref)
            return None
        children = await workloads_of(store, resource)
        name = catalog.model_of(resource)
        if resource.deleting or not name:
            self._named.remove(ref)
            return MonitorFacts(resource, children)
        # Indexed before it is read: an object created in between then wakes this key again.
        self._named.set(ref, (Ref("Model", name, ref.namespace),))
        model = await find(store, Ref("Model", name, ref.namespace))
        of_model = Where(namespace=ref.namespace, fields={"spec.modelName": name})
        return MonitorFacts(
            resource,
            children,
            model,
            await _find_framework(store, model) if model is not None else "",
            tuple(each for each in await whole(store, self.kind, of_model) if each.meta.uid != resource.meta.uid),
            frozenset(tool for tool, package in PACKAGES.items() if self._installed(package)),
        )

    def decide(self, facts: MonitorFacts, now: datetime) -> Decision:
        resource = facts.resource
        if resource.deleting:
            return Decision()
        accepted, findings = catalog.check_accepted(resource, self._context)
        if findings.faults:  # running children are kept
            ready = false_condition("Ready", accepted.reason, accepted.message)
            return Decision(facts.children, MonitorStatus(conditions=(accepted, ready)))
        spec = MonitorSpec.of(resource)
        obstacle = _find_obstacle(facts, spec)
        if obstacle is not None:
            return Decision(status=MonitorStatus(conditions=(accepted, obstacle)))
        choice = choose_tool(spec.tool, facts.framework, facts.installed)
        model = Ref("Model", spec.model_name, resource.meta.namespace)
        wanted = self._workload(resource, spec, model) if choice.tool == TENSORBOARD else None
        ready = _showing_condition(choice) if wanted is None else _tensorboard_condition(facts, wanted)
        path = page_path(model) if wanted is None else tool_path(model)
        status = MonitorStatus(conditions=(accepted, ready), url=f"{self._control_url}{path}", tool=choice.tool)
        again = RECHECK_SECONDS if choice.reason == "ToolMissing" else None
        return Decision((wanted,) if wanted is not None else (), status, again)

    def _workload(self, monitor: Resource, spec: MonitorSpec, model: Ref) -> Resource:
        """Its name holds a part of the uid: a plain `<name>.<word>` could be the Workload of a served version."""
        mark = hashlib.sha256(monitor.meta.uid.encode()).hexdigest()[:8]
        meta = Meta(f"{monitor.meta.name}.monitor-{mark}", model.namespace, labels={MODEL_LABEL: model.name})
        return Resource("Workload", meta, tensorboard_spec(self._data_dir, model, spec))


def choose_tool(requested: str | None, framework: str, installed: frozenset[str]) -> ToolChoice:
    """The tool to show, and why it is not the requested one or the framework's own."""
    tool = requested or _tool_of(framework)
    if tool is None:
        return ToolChoice(SCALARS, "ToolUnknown", f"framework '{framework}' is unknown; showing scalars")
    if tool == SCALARS or tool in installed:
        return ToolChoice(tool)
    if tool not in PACKAGES:
        return ToolChoice(SCALARS, "ToolUnknown", f"there is no tool called '{tool}'; showing scalars")
    why = f"{tool} is not installed, so scalars are shown; to install it: pip install 'mizzen[{tool}]'"
    return ToolChoice(SCALARS, "ToolMissing", why)


def tensorboard_spec(data_dir: Path, model: Ref, spec: MonitorSpec) -> dict[str, Any]:
    """The spec of its Workload: plain data, without empty fields."""
    flags: Mapping[str, object] = {
        "logdir": paths.events_of_model(data_dir, model.namespace, model.name),
        "host": "127.0.0.1",
        "port": "$(MIZZEN_PORT)",
        "path_prefix": tool_path(model).rstrip("/"),
        "reload_interval": RELOAD_SECONDS,
        "window_title": f"{model.name} · TensorBoard",
    }
    secret = {name: ref.wire() for name, ref in env.secret_values(spec.env).items()}
    optional = {"env": env.plain_values(spec.env), "secretEnv": secret}
    return {
        "purpose": "show",
        "command": ["python", "-m", "mizzen.showing.tensorboard", *(f"--{flag}={flags[flag]}" for flag in flags)],
        "readyPath": READY_PATH,
        "replicas": 1,
        "restart": "Always",
        **{field: value for field, value in optional.items() if value},
    }


def _tool_of(framework: str) -> str | None:
    """None: the framework is unknown. Without a framework, scalars are all that can be expected."""
    known = frameworks.find(framework) if framework else None
    if known is None:
        return None if framework else SCALARS
    return known.monitor


def _find_obstacle(facts: MonitorFacts, spec: MonitorSpec) -> Condition | None:
    if facts.model is None or facts.model.deleting:
        return false_condition("Ready", "ModelNotFound", f"there is no model '{spec.model_name}'")
    counts = first((facts.resource, *facts.others))
    if counts is not None and counts.meta.uid != facts.resource.meta.uid:
        message = f"model '{spec.model_name}' already has a monitor: {counts.ref}"
        return false_condition("Ready", "OtherMonitor", message)
    return None


def _showing_condition(choice: ToolChoice) -> Condition:
    message = choice.why or "the built-in viewer shows the scalars of all versions"
    return Condition(type="Ready", status="True", reason=choice.reason, message=message)


def _tensorboard_condition(facts: MonitorFacts, wanted: Resource) -> Condition:
    there = find_child(facts.children, wanted.meta.name)
    available = WorkloadStatus.of(there).condition("Available") if there is not None else None
    if available is None or available.reason == "NoReplicas":
        return false_condition("Ready", "Starting", "TensorBoard is starting")
    if not available.true:
        return false_condition("Ready", available.reason, available.message or "TensorBoard is not ready yet")
    return Condition(type="Ready", status="True", reason="Showing", message="TensorBoard is ready")


async def _find_framework(store: Store, model: Resource) -> str:
    framework = model.spec.get("framework")
    if isinstance(framework, str) and framework:
        return framework
    highest = ModelStatus.of(model).highest_version
    ref = Ref("ModelVersion", version_object_name(model.meta.name, str(highest)), model.meta.namespace)
    version = await find(store, ref) if highest else None
    found = version.spec.get("framework") if version is not None else None
    return found if isinstance(found, str) else ""
