"""Every operation of the control API, one row each: the OpenAPI document and docs/reference/http.md are made from it.

The resource API stands here once, with `{plural}`; `openapi.py` writes it out for each kind. A test compares the rows
with the routes of the app, and the parameters of each with those the route takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mizzen.runs import checkpoints
from mizzen.runs.scalars import curve
from mizzen.server.admin import usage
from mizzen.server.http.multipart import ARCHIVE_TYPES
from mizzen.server.kubernetes import access_reviews, crds, discovery, events, namespaces, openapi_v3, protobuf
from mizzen.server.monitor import comparison
from mizzen.server.resources import watch, workload_logs, write
from mizzen.server.resources.routes import ROOT
from mizzen.server.training import job_logs, routes
from tools.derived import rules
from tools.derived.shapes import FLAG, NUMBER, PAST, Schema, text

JSON = "application/json"
YAML = "application/yaml"
EVERYWHERE, WITHIN = f"{ROOT}/{{plural}}", f"{ROOT}/namespaces/{{namespace}}/{{plural}}"
ONE = f"{WITHIN}/{{name}}"

KIND, KIND_LIST = "{Kind}", "{Kind}List"
"""Stand for the schemas of a kind and of a list of it."""

_BYTES: Schema = {"type": "string", "format": "binary"}
_ANY: Schema = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    id: str
    summary: str
    answers: Mapping[int, str | Schema | None]
    """By code: a name in `shapes.SHAPES`, or several with `|` between them, a schema, or None for no body."""
    query: tuple[str, ...] = ()
    body: Mapping[str, str | Schema] = field(default_factory=dict)
    """By media type."""
    body_required: bool = True
    header: tuple[str, ...] = ()
    sends: tuple[str, ...] = ()
    """Headers of all its answers but errors; see `SENT`."""
    known: bool | None = None
    """Only for those who say who they are. None: when it changes something."""
    conflicts: bool = False
    """409 is possible: a name is taken, or something is in the way."""
    tag: str = "models"
    media: str = JSON
    """Of the answers."""
    writes: bool = False
    """Of the resource API: only for kinds that people write."""
    only: str = ""
    """Of the resource API: the one kind that has it."""

    @property
    def needs_token(self) -> bool:
        return self.method != "GET" if self.known is None else self.known

    @property
    def key(self) -> tuple[str, str]:
        return self.method, self.path


def one(name: str | Schema, **more: str | Schema) -> dict[str, str | Schema]:
    """An object, in JSON or YAML."""
    return {JSON: name, YAML: name, **more}


LARGEST = 2**63 - 1

PARAMETERS: dict[str, tuple[Schema, str]] = {
    "namespace": (rules.NAME, "Which namespace; `default` if absent."),
    "limit": (
        {**NUMBER, "minimum": 1, "maximum": LARGEST},
        "Most items of a page; never more than 5,000, and of large ones fewer.",
    ),
    "continue": (text(), "Where the page begins: `metadata.continue` of the one before."),
    "labelSelector": (rules.SELECTOR, "Labels that must hold: `a=b,c!=d,e in (f,g),!h`."),
    "fieldSelector": (
        text(),
        "Fields that must hold: `metadata.name!=iris,spec.modelName=iris`. Each kind has its own.",
    ),
    "watch": (FLAG, "Stream changes instead of a list: one JSON object per line."),
    "resourceVersion": (text(), "Watch what changed after this; if absent, all there is and then what changes."),
    "timeoutSeconds": ({**NUMBER, "minimum": 1, "maximum": watch.DAY}, "End the watch after this time."),
    "resourceVersionMatch": (text(), "Of a list: taken, and not needed. It is always the newest state."),
    "allowWatchBookmarks": (FLAG, "Of a watch: lines of type BOOKMARK may say how far it has come."),
    "sendInitialEvents": (FLAG, "Of a watch: begin with all there is, and say with a BOOKMARK when that was all."),
    "dryRun": ({"type": "string", "enum": ["All"]}, "Do everything but write."),
    "fieldManager": (text(), "Who owns the fields that are written: the program, as it calls itself."),
    "fieldValidation": (
        {"type": "string", "enum": ["Ignore", "Warn", "Strict"]},
        "What becomes of unknown fields: refused with Strict, which is meant if absent; else left out.",
    ),
    "force": (FLAG, "When applying: take fields from their owners."),
    "propagationPolicy": (
        {"type": "string", "enum": ["Background", "Foreground"]},
        "Foreground ends first what is in the way; else what is used is not deleted.",
    ),
    "gracePeriodSeconds": (
        {**NUMBER, "minimum": 0, "maximum": LARGEST},
        "Taken, and not needed: what runs ends as soon as it can.",
    ),
    "orphanDependents": ({"type": "boolean", "enum": [False]}, "Only false: nothing lives on without its owner."),
    "pretty": (text(), "Taken, and not needed."),
    "assume": ({"type": "string"}, "With dryRun: objects that count as there, `Kind/name`, several with commas."),
    "includeObject": (
        {"type": "string", "enum": ["None", "Metadata", "Object"]},
        "When `Accept` asks for a Table: what stands beside each row. Metadata, if absent.",
    ),
    "timeout": (text(), "How long the caller waits. An answer comes at once."),
    "hash": (text(), "Of the document as the index names it: then it may be kept for ever."),
    "tail": ({**NUMBER, "minimum": 0, "maximum": 1_000_000}, "Only so many of the last lines."),
    "follow": (FLAG, "Go on with what is printed from now on."),
    "places": (FLAG, "Say between the lines how far one has read, in lines that begin with a NUL."),
    "after": (rules.like(workload_logs.PLACE), "Go on at a place that such a line told."),
    "cascade": (FLAG, "End first what is in the way: versions, servers, jobs, a monitor."),
    "wait": (FLAG, "Answer when it is gone, or, of a job set, has ended."),
    "state": ({"type": "string", "enum": list(routes.STATES)}, "Which job sets; `ongoing` if absent."),
    "tag": (text(), "Only series of this scalar."),
    "version": (rules.VERSION, "Only series of this version."),
    "job": (text(), "Only series of this job set."),
    "points": (
        {**NUMBER, "minimum": 4, "maximum": curve.KEPT},
        f"Most points of a series, {comparison.POINTS} if absent: first, last, lowest and highest are among them.",
    ),
    "replica": (rules.like(job_logs.REPLICA), "Only this replica, such as `worker-0`."),
    "training": (FLAG, "Of files that are the body: they are code to be trained, and hold nothing to load yet."),
    "at": (rules.TIME, "A time, such as `2026-01-31T12:00:00Z`: answer what the model looked like then."),
    "framework": (rules.FRAMEWORK, "Of files that are the body: what loads them."),
    "entrypoint": (text(), "Of files that are the body: what to load."),
    "image": (text(), "Of files that are the body: a container image that serves them."),
    "parentJob": (text(), "Of files that are the body: the TrainingJob that made them."),
    "labels": (text(), "Of files that are the body: `a=b,c=d`."),
    "python": (text(), "Of files that are the body: the Python they run with, such as `3.12`."),
    "build": (FLAG, "What was printed while its environment was built, instead."),
    "requirements": (text(), "Of files that are the body: Python packages, one per line."),
    "actor": (text(), "Who asked."),
    "kind": (text(), "What kind of thing was asked about."),
    "name": (text(), "What was asked about."),
    "allowed": (FLAG, "Only what was allowed, or only what was refused."),
    "since": (rules.TIME, "From this time on."),
    "minutes": (
        {**NUMBER, "minimum": 1, "maximum": usage.MOST_MINUTES},
        f"How far back, {usage.DEFAULT_MINUTES} if absent. Beyond that, points are half a minute apart.",
    ),
    "until": (rules.TIME, "Before this time."),
    "user": (text(), "What is known of this user, where a bandit keeps a state for each."),
}
PATH_PARAMETERS: dict[str, str] = {
    "plural": "Which kind.",
    "namespace": "The namespace.",
    "name": "The object's name.",
    "model": "The model's name.",
    "version": "A number or a name; `auto`, where one is added, is the next number.",
    "alias": "The alias.",
    "server": "The server's id, which is the InferenceModel's name.",
    "job": "The job set's id, which is the TrainingJob's name.",
    "checkpoint": "The checkpoint's id.",
    "digest": "sha256:<hex> of the file.",
    "user": "The user's name.",
    "token": "The token's id.",
    "subject": "A user's name, `group:<name>`, `*` or `anonymous`.",
    "secret": "The secret's name.",
}
PATHS: dict[str, Schema] = {
    "namespace": rules.NAME, "name": text(), "model": rules.NAME, "version": rules.VERSION_OR_NEXT,
    "alias": rules.ALIAS, "server": rules.NAME, "digest": rules.DIGEST, "user": rules.USER, "token": rules.TOKEN,
    "subject": rules.SUBJECT,
    "secret": rules.NAME, "job": rules.NAME, "checkpoint": rules.like(checkpoints.ID),
}  # fmt: skip
"""What may stand in a path. Kinds differ in how their objects may be called."""
SENT: dict[str, tuple[Schema, str]] = {
    "Location": (text(), "Where it is found again."),
    "Upload-Offset": ({**NUMBER, "minimum": 0}, "Bytes that have come."),
    "ETag": (text(), "Of the document as it is now."),
}
HEADERS: dict[str, str] = {
    "Content-Range": "`bytes a-b/total`: which part of the file this is; `bytes */total` only asks how much has come.",
    "Idempotency-Key": "A text of the caller's own: who repeats a call with it within a day gets the first answer.",
    "If-None-Match": "The ETag of a document that is there already: 304 when it is still the same.",
}

HERE = ("namespace",)
PAGE = ("limit", "continue")
SELECTED = ("labelSelector", "fieldSelector")
SHOWN = ("includeObject", "pretty", "timeout")
LISTED = (
    *PAGE, *SELECTED, "watch", "resourceVersion", "resourceVersionMatch", "timeoutSeconds", "allowWatchBookmarks",
    "sendInitialEvents", *SHOWN,
)  # fmt: skip
PATCHED = ("dryRun", "fieldManager", "fieldValidation", "force", *SHOWN)
WRITTEN = ("dryRun", "assume", "fieldManager", "fieldValidation", *SHOWN)
DELETED = ("dryRun", "propagationPolicy", "gracePeriodSeconds", "orphanDependents", "pretty", "timeout")
PATCHES: dict[str, str | Schema] = {write.MERGE: "Patch", write.JSON: "JsonPatch", write.APPLY: KIND}
SCALED = "InferenceModel"
ABOUT_FILES = ("framework", "entrypoint", "python", "image", "parentJob", "labels", "requirements", "training")
FILES = one("NewVersion", **dict.fromkeys(sorted(ARCHIVE_TYPES), _BYTES), **{"multipart/form-data": "VersionForm"})

PLANE: tuple[Operation, ...] = (
    Operation("GET", "/", "index", "Where things are.", {200: "Index"}, tag="plane"),
    Operation("GET", "/healthz", "health", "Whether the plane lives.", {200: "Live"}, tag="plane"),
    Operation("GET", "/livez", "live", "The same, by the name that Kubernetes has for it.", {200: "Live"}, tag="plane"),
    Operation("GET", "/readyz", "readiness", "Whether the plane has started; 503 until then.", {200: "Readiness"},
              tag="plane"),
    Operation("GET", "/version", "version", "Which Mizzen this is.", {200: "Version"}, tag="plane"),
    Operation("GET", "/openapi.json", "openapi", "This document.", {200: {"type": "object"}, 304: None},
              header=("If-None-Match",), sends=("ETag",), tag="plane"),
    Operation("GET", "/usage", "usage",
              "How what is served does now, and what it and the plane use; of one namespace or of all.",
              {200: "Usage"}, query=("namespace",), tag="plane"),
    Operation("GET", "/usage/history", "usageHistory",
              "How models did, each version for itself; without a name, of as many as one answer holds.",
              {200: "UsageHistory"}, query=("name", "namespace", "minutes"), tag="plane"),
    Operation("GET", "/graph/{name}", "describeGraph",
              "An MLGraph as it is now: its nodes, and what passes between them.",
              {200: "GraphView"}, query=HERE, tag="plane"),
    Operation("GET", "/graph/{name}/state", "graphState",
              "What its bandits have learnt, and how well each version does at each node.", {200: "GraphState"},
              query=(*HERE, "user"), tag="plane"),
    Operation("GET", "/metrics", "metrics", "What the plane can tell, as text for Prometheus.",
              {200: {"type": "string"}}, media="text/plain", tag="plane"),
)  # fmt: skip

RESOURCES: tuple[Operation, ...] = (
    Operation("GET", EVERYWHERE, "list{Kind}Everywhere", "List or watch objects of all namespaces.", {200: KIND_LIST},
              query=LISTED),
    Operation("GET", WITHIN, "list{Kind}", "List or watch objects.", {200: KIND_LIST}, query=LISTED),
    Operation("POST", WITHIN, "create{Kind}", "Create an object.", {201: KIND}, query=WRITTEN, body=one(KIND),
              conflicts=True, writes=True),
    Operation("DELETE", WITHIN, "deleteAll{Kind}", "Delete objects, as far as one may: all that are selected.",
              {200: KIND_LIST}, query=(*DELETED, *PAGE, *SELECTED, "resourceVersion", "resourceVersionMatch"),
              conflicts=True, writes=True),
    Operation("GET", ONE, "read{Kind}", "Read an object.", {200: KIND}, query=("resourceVersion", *SHOWN)),
    Operation("PUT", ONE, "replace{Kind}",
              "Replace an object; with `metadata.resourceVersion`, only if it is still that one.", {200: KIND},
              query=WRITTEN, body=one(KIND), conflicts=True, writes=True),
    Operation("PATCH", ONE, "patch{Kind}", "Change parts of an object, or apply it, which makes it if need be.",
              {200: KIND, 201: KIND}, query=(*WRITTEN, "force"), body=PATCHES, conflicts=True, writes=True),
    Operation("DELETE", ONE, "delete{Kind}",
              "Delete an object. The answer is the object while something holds it, else a Status.",
              {200: f"{KIND}|Status"}, query=DELETED, conflicts=True, writes=True),
    Operation("GET", f"{ONE}/status", "read{Kind}Status", "Read an object.", {200: KIND}, query=SHOWN, writes=True),
    Operation("PUT", f"{ONE}/status", "replace{Kind}Status", "Replace the status of an object. Needs `admin`.",
              {200: KIND}, query=PATCHED, body=one(KIND), conflicts=True, writes=True),
    Operation("PATCH", f"{ONE}/status", "patch{Kind}Status", "Change parts of the status of an object. Needs `admin`.",
              {200: KIND}, query=PATCHED, body=PATCHES, conflicts=True, writes=True),
    Operation("GET", f"{ONE}/scale", "read{Kind}Scale", "Read how many replicas are wanted and there.", {200: "Scale"},
              query=("pretty", "timeout"), only=SCALED),
    Operation("PUT", f"{ONE}/scale", "replace{Kind}Scale", "Change how many replicas are wanted.", {200: "Scale"},
              query=WRITTEN, body=one("Scale"), conflicts=True, only=SCALED),
    Operation("PATCH", f"{ONE}/scale", "patch{Kind}Scale", "Change how many replicas are wanted.", {200: "Scale"},
              query=(*WRITTEN, "force"), body={**PATCHES, write.APPLY: "Scale"}, conflicts=True, only=SCALED),
    Operation("GET", f"{ONE}/log", "log{Kind}", "What its processes printed.", {200: {"type": "string"}},
              query=("tail", "follow", "places", "after", "build"), media="text/plain", only="InferenceModel"),
)  # fmt: skip

MODELS: tuple[Operation, ...] = (
    Operation("POST", "/model", "createModel", "Create a model.", {201: "ModelView"}, query=HERE, body=one("NewModel"),
              sends=("Location",), conflicts=True),
    Operation("GET", "/model", "listModels", "List models, by name.", {200: "ModelViewList"},
              query=(*HERE, *PAGE, "labelSelector")),
    Operation("GET", "/model/{model}", "describeModel", "A model with its versions, servers, jobs and last change.",
              {200: "ModelDescription"}, query=HERE),
    Operation("DELETE", "/model/{model}", "deleteModel",
              "Delete a model: 409 names what is in the way; 202 until gone.", {200: "Deleted", 202: "ModelView"},
              query=(*HERE, "cascade", "wait"), conflicts=True),
    Operation("GET", "/model/{model}/current", "currentVersion", "Which version is current, since when and by whom.",
              {200: "CurrentVersion"}, query=HERE),
    Operation("POST", "/model/{model}/current", "promote", "Make a version current. A server of it must be ready.",
              {200: "ModelView"}, query=HERE, body=one("WhichVersion"), conflicts=True),
    Operation("POST", "/model/{model}/rollback", "rollback", "Back to the version before, or to another that answers.",
              {200: "ModelView"}, query=HERE, body=one("WhichVersionOrPrevious"), body_required=False, conflicts=True),
    Operation("PUT", "/model/{model}/alias/{alias}", "pointAlias", "Point an alias at a version, or move it.",
              {200: "ModelView"}, query=HERE, body=one("WhichVersion"), conflicts=True),
    Operation("DELETE", "/model/{model}/alias/{alias}", "removeAlias", "Remove an alias.", {200: "ModelView"},
              query=HERE, conflicts=True),
    Operation("GET", "/model/{model}/history", "history",
              "Every change and decision, in the order of time, also of a model that is gone.", {200: PAST},
              query=(*HERE, *PAGE, "at")),
    Operation("POST", "/model/{model}/version", "addNextVersion",
              "Add a version under the next number. A form sends its file as `code`.",
              {201: "VersionView"}, query=(*HERE, *ABOUT_FILES), body=FILES, sends=("Location",), conflicts=True),
    Operation("GET", "/model/{model}/version", "listVersions", "List versions.", {200: "VersionViewList"},
              query=(*HERE, *PAGE, "labelSelector")),
    Operation("POST", "/model/{model}/version/{version}", "addVersion",
              "Add a version, as above: 200 when exactly this one is there already.",
              {200: "VersionView", 201: "VersionView"},
              query=(*HERE, *ABOUT_FILES), body=FILES, sends=("Location",), conflicts=True),
    Operation("GET", "/model/{model}/version/{version}", "describeVersion",
              "A version, and what changed since the one before.", {200: "VersionDescription"}, query=HERE),
    Operation("DELETE", "/model/{model}/version/{version}", "deleteVersion", "Delete a version that nothing uses.",
              {200: "Deleted", 202: "VersionView"}, query=HERE, conflicts=True),
    Operation("POST", "/model/{model}/version/{version}/trust", "trustVersion",
              "Vouch for a version that somebody else brought: its code and pickles may run. Needs `admin`.",
              {200: "VersionView"}, query=HERE, conflicts=True),
    Operation("POST", "/model/{model}/upload", "askUpload", "Which of these files have to be sent.", {200: "Missing"},
              query=HERE, body=one("Files"), conflicts=True),
    Operation("HEAD", "/model/{model}/upload/{digest}", "uploadOffset", "How much of a file has come: `Upload-Offset`.",
              {200: None}, query=HERE, sends=("Upload-Offset",), conflicts=True),
    Operation("PUT", "/model/{model}/upload/{digest}", "sendUpload",
              "Send a file or a part of it: 201 when all of it is there, 202 while more is to come.",
              {201: "Piece", 202: "Piece"}, query=HERE, body={"application/octet-stream": _BYTES},
              header=("Content-Range",), sends=("Upload-Offset",), conflicts=True),
    Operation("POST", "/model/{model}/serve/{version}", "serve",
              "Make one more server of a version: of a checkpoint, the newest if absent, else of its own files.",
              {201: "ServerView"}, query=HERE, body=one("NewServer"), body_required=False, sends=("Location",),
              conflicts=True),
    Operation("GET", "/model/{model}/serve/{version}", "listServers", "List servers of a version.",
              {200: "ServerViewList"}, query=HERE),
    Operation("GET", "/model/{model}/serve/{version}/{server}", "describeServer", "A server of a version.",
              {200: "ServerView"}, query=HERE),
    Operation("DELETE", "/model/{model}/serve/{version}/{server}", "deleteServer",
              "End a server: 202 until its processes have ended.", {200: "Deleted", 202: "ServerView"},
              query=(*HERE, "wait"), conflicts=True),
    Operation("POST", "/v2/repository/models/{model}/load", "load",
              "Give the servers of a model their replicas back, or it a server; answers when they are ready.",
              {200: "Loaded"}, query=HERE, conflicts=True),
    Operation("POST", "/v2/repository/models/{model}/unload", "unload",
              "Leave the servers of a model without replicas; answers when their processes have ended.",
              {200: "Loaded"}, query=HERE, conflicts=True),
)  # fmt: skip

_VERSION_JOBS, _JOB = "/model/{model}/train/{version}", "/model/{model}/train/{version}/{job}"
_CHECKPOINT = f"{_JOB}/checkpoint/{{checkpoint}}"

TRAINING: tuple[Operation, ...] = (
    Operation("GET", "/model/{model}/train", "listModelJobs", "List job sets of all versions of a model.",
              {200: "JobViewList"}, query=(*HERE, "state", *PAGE, "labelSelector")),
    Operation("POST", _VERSION_JOBS, "train",
              "Train a version: each call makes one more job set; 200 for a call that is repeated with its key.",
              {200: "JobView", 201: "JobView"}, query=HERE, body=one("NewJob"), body_required=False,
              header=("Idempotency-Key",), sends=("Location",), conflicts=True),
    Operation("GET", _VERSION_JOBS, "listJobs", "List job sets of a version: those that go on, unless `state` says.",
              {200: "JobViewList"}, query=(*HERE, "state", *PAGE, "labelSelector")),
    Operation("GET", _JOB, "describeJob", "A job set, how far it is just now, and who serves what it saved.",
              {200: "JobDescription"}, query=HERE),
    Operation("DELETE", _JOB, "terminateJob",
              "End a job set: 202 once that is decided. Its record, logs and checkpoints stay.",
              {200: "JobView", 202: "JobView"}, query=(*HERE, "wait"), conflicts=True),
    Operation("POST", f"{_JOB}/suspend", "suspendJob", "Stop all replicas of a job set, until it is resumed.",
              {200: "JobView"}, query=HERE, conflicts=True),
    Operation("POST", f"{_JOB}/resume", "resumeJob", "Let a job set go on that was suspended.", {200: "JobView"},
              query=HERE, conflicts=True),
    Operation("GET", f"{_JOB}/logs", "jobLogs",
              "What its replicas print, each line after the name of one. `since` may be a duration, too: `10m`.",
              {200: {"type": "string"}}, query=(*HERE, "follow", "tail", "since", "replica"), media="text/plain",
              known=True),
    Operation("GET", f"{_JOB}/checkpoint", "listCheckpoints",
              "What a job set saved, newest first; also when its record is gone.", {200: "CheckpointList"}, query=HERE),
    Operation("GET", _CHECKPOINT, "describeCheckpoint", "A checkpoint, and who serves it.", {200: "Checkpoint"},
              query=HERE),
    Operation("DELETE", _CHECKPOINT, "deleteCheckpoint", "Delete a checkpoint that nobody serves.",
              {200: "DeletedCheckpoint"}, query=HERE, conflicts=True),
    Operation("GET", f"{_CHECKPOINT}/files", "checkpointFiles", "All its files, as a tar archive. Not for strangers.",
              {200: _BYTES}, query=HERE, media="application/octet-stream", known=True),
    Operation("POST", f"{_CHECKPOINT}/trust", "trustCheckpoint",
              "Vouch for what a job of somebody else saved: its pickles may run. Needs `admin`.",
              {200: "Checkpoint"}, query=HERE),
)  # fmt: skip

_MONITOR = "/model/{model}/monitor"

MONITORS: tuple[Operation, ...] = (
    Operation("POST", _MONITOR, "startMonitor", "Start the monitoring tool of a model; 200 when it has one already.",
              {200: "MonitorView", 201: "MonitorView"}, query=HERE, body=one("NewMonitor"), body_required=False,
              conflicts=True),
    Operation("GET", _MONITOR, "describeMonitor", "The monitoring tool of a model, and where a browser finds it.",
              {200: "MonitorView"}, query=HERE, known=True),
    Operation("DELETE", _MONITOR, "endMonitor", "End it, if there is one: 202 until its process has ended.",
              {200: "EndedMonitor", 202: "EndedMonitor"}, query=(*HERE, "wait")),
    Operation("POST", f"{_MONITOR}/ticket", "monitorTicket",
              "An address that opens it in a browser, which has no token: good once, and soon.",
              {200: "MonitorTicket"}, query=HERE),
    Operation("GET", f"{_MONITOR}/scalars", "scalars", "What jobs logged, by step, and how served versions do now.",
              {200: "Scalars"}, query=("tag", "version", "job", "points", *HERE), known=True),
)  # fmt: skip

PEOPLE: tuple[Operation, ...] = (
    Operation("GET", "/whoami", "whoami", "Who asks, and what they are permitted.", {200: "WhoAmI"}, tag="people"),
    Operation("POST", "/user", "createUser", "Create a user.", {201: "User"}, body=one("NewUser"), conflicts=True,
              sends=("Location",), tag="people"),
    Operation("GET", "/user", "listUsers", "List users.", {200: "UserList"}, known=True, tag="people"),
    Operation("GET", "/user/{user}", "describeUser", "A user, and the RoleBindings that name them.",
              {200: "UserDescription"}, known=True, tag="people"),
    Operation("DELETE", "/user/{user}", "deleteUser",
              "Delete a user, their tokens and all mention of them in RoleBindings.",
              {200: "Deleted"}, tag="people"),
    Operation("POST", "/user/{user}/token", "createToken", "Create a token; it is shown this once.",
              {201: "CreatedToken"}, body=one("NewToken"), body_required=False, sends=("Location",), tag="people"),
    Operation("GET", "/user/{user}/token", "listTokens", "List a user's tokens, without the tokens.",
              {200: "TokenList"}, known=True, tag="people"),
    Operation("DELETE", "/user/{user}/token/{token}", "revokeToken", "Revoke a token.", {200: "Token"}, tag="people"),
    Operation("GET", "/limit", "listLimits", "How much everybody may predict who is limited.", {200: "LimitList"},
              known=True, tag="people"),
    Operation("PUT", "/limit/{subject}", "setLimit", "Say how much somebody may predict.", {200: "Limit"},
              body={JSON: "LimitValues"}, tag="people"),
    Operation("GET", "/limit/{subject}", "describeLimit", "How much somebody may predict, and has.", {200: "Limit"},
              known=True, tag="people"),
    Operation("DELETE", "/limit/{subject}", "deleteLimit", "Let somebody predict as much as they like.",
              {200: "Deleted"}, tag="people"),
    Operation("GET", "/secret", "listSecrets", "Names and keys of secrets.", {200: "SecretList"}, query=HERE,
              known=True, tag="people"),
    Operation("PUT", "/secret/{secret}", "setSecret", "Set all values of a secret.", {200: "Secret", 201: "Secret"},
              query=HERE, body={JSON: "SecretValues"}, tag="people"),
    Operation("PATCH", "/secret/{secret}", "changeSecret", "Add or replace values of a secret; its others stay.",
              {200: "Secret", 201: "Secret"}, query=HERE, body={JSON: "SecretValues"}, tag="people"),
    Operation("GET", "/secret/{secret}", "describeSecret", "Keys of a secret. Nobody is shown values.",
              {200: "Secret"}, query=HERE, known=True, tag="people"),
    Operation("DELETE", "/secret/{secret}", "deleteSecret", "Delete a secret.", {200: "Deleted"}, query=HERE,
              tag="people"),
    Operation("GET", "/audit", "audit", "Writes and refusals, newest first.", {200: "AuditEntryList"},
              query=("actor", "namespace", "kind", "name", "allowed", "since", "until", *PAGE), known=True,
              tag="people"),
)  # fmt: skip


def _group(version: str) -> str:
    """Its name in the name of an operation."""
    return version.partition(".")[0]


_DISCOVERY: tuple[Operation, ...] = tuple(
    Operation("GET", path, id_, summary, {200: shape}, query=("timeout",), tag="kubernetes")
    for path, id_, summary, shape in (
        ("/api", "coreVersions", "Versions of the core group.", "APIVersions"),
        ("/api/v1", "coreResources", "Kinds of the core group, and what one may do with them.", "APIResourceList"),
        ("/apis", "groups", "All other groups and their versions.", "APIGroupList"),
        *((f"/apis/{version.partition('/')[0]}", f"{_group(version)}Group", f"The group of {version}.", "APIGroup")
          for version in discovery.GROUPS),
        *((f"/apis/{version}", f"{_group(version)}Resources", f"Kinds of {version}, and what one may do with them.",
           "APIResourceList") for version in discovery.GROUPS),
        (openapi_v3.OLDER, "openapiV2", "A document without content, for clients that cannot do without one.",
         "OlderDocument"),
        (openapi_v3.ROOT, "openapiV3", "Where the documents of each group and version are.", "Documents"),
    )
) + tuple(
    Operation("GET", f"{openapi_v3.ROOT}/{path}", f"openapiV3{name.title()}", f"The OpenAPI document of {path}.",
              {200: {"type": "object"}, 304: None}, query=("hash", "timeout"), header=("If-None-Match",),
              tag="kubernetes")
    for path, name in (("api/v1", "core"), *((f"apis/{version}", _group(version)) for version in discovery.GROUPS))
)  # fmt: skip

_EVENTS: tuple[Operation, ...] = (
    Operation("GET", events.EVERYWHERE, "listEventEverywhere", "List or watch Events of all namespaces.",
              {200: "EventList"}, query=LISTED, tag="kubernetes"),
    Operation("GET", events.WITHIN, "listEvent", "List or watch Events: what happened to objects in the last hour.",
              {200: "EventList"}, query=LISTED, tag="kubernetes"),
    Operation("GET", f"{events.WITHIN}/{{name}}", "readEvent", "Read an Event.", {200: "Event"},
              query=("resourceVersion", *SHOWN), tag="kubernetes"),
)  # fmt: skip

_DEFINITIONS: tuple[Operation, ...] = (
    Operation("GET", crds.ROOT, "listCustomResourceDefinition", "List the kinds that there are here.",
              {200: _ANY}, query=crds.LISTING, tag="kubernetes"),
    Operation("GET", f"{crds.ROOT}/{{name}}", "readCustomResourceDefinition", "Read what a kind is.",
              {200: _ANY}, query=crds.QUERY, tag="kubernetes"),
)  # fmt: skip


def _sent(shape: str) -> dict[str, str | Schema]:
    """As JSON, or as kubectl sends it."""
    return {**one(shape), protobuf.MEDIA_TYPE: _BYTES}


_NAMESPACES: tuple[Operation, ...] = (
    Operation("GET", namespaces.ROOT, "listNamespace", "List or watch namespaces.", {200: "NamespaceList"},
              query=LISTED, tag="kubernetes"),
    Operation("POST", namespaces.ROOT, "createNamespace", "Create a namespace.", {201: "Namespace"},
              query=WRITTEN, body=_sent("Namespace"), conflicts=True, tag="kubernetes"),
    Operation("GET", f"{namespaces.ROOT}/{{name}}", "readNamespace", "Read a namespace.", {200: "Namespace"},
              query=("resourceVersion", *SHOWN), tag="kubernetes"),
    Operation("PUT", f"{namespaces.ROOT}/{{name}}", "replaceNamespace", "Replace labels and annotations of one.",
              {200: "Namespace"}, query=WRITTEN, body=_sent("Namespace"), conflicts=True, tag="kubernetes"),
    Operation("PATCH", f"{namespaces.ROOT}/{{name}}", "patchNamespace", "Change labels and annotations of one.",
              {200: "Namespace", 201: "Namespace"}, query=(*WRITTEN, "force"),
              body={**PATCHES, write.APPLY: "Namespace"}, conflicts=True, tag="kubernetes"),
    Operation("DELETE", f"{namespaces.ROOT}/{{name}}", "deleteNamespace", "Delete a namespace with all that is in it.",
              {200: "Namespace", 202: "Namespace"}, query=DELETED, conflicts=True, tag="kubernetes"),
)  # fmt: skip
_REVIEWS: tuple[Operation, ...] = tuple(
    Operation("POST", f"/apis/{version}/{plural}", id_, summary, {201: shape}, query=access_reviews.QUERY,
              body=_sent(shape),
              body_required=shape != "SelfSubjectReview", known=False, tag="kubernetes")
    for version, plural, id_, summary, shape in (
        (discovery.AUTHORIZATION, "selfsubjectaccessreviews", "reviewAccess", "Ask whether one may do something.",
         "SelfSubjectAccessReview"),
        (discovery.AUTHORIZATION, "selfsubjectrulesreviews", "reviewRules", "Ask what one may do.",
         "SelfSubjectRulesReview"),
        (discovery.AUTHENTICATION, "selfsubjectreviews", "reviewSelf", "Ask who one is.", "SelfSubjectReview"),
    )
)  # fmt: skip

DOOR = (*_DISCOVERY, *_DEFINITIONS, *_EVENTS, *_NAMESPACES, *_REVIEWS)

OPERATIONS = (*PLANE, *MODELS, *TRAINING, *MONITORS, *PEOPLE, *DOOR)
