"""Every operation of the control API, one row each: the source of the OpenAPI document and docs/reference/http.md.

The resource API is listed once, with `{plural}`; `openapi.py` expands it for each kind. A test compares the rows with
the routes of the app, and their parameters with those that the routes accept.
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
"""Placeholders for the schemas of a kind and of its list."""

_BYTES: Schema = {"type": "string", "format": "binary"}
_ANY: Schema = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    id: str
    summary: str
    answers: Mapping[int, str | Schema | None]
    """By status code: a name in `shapes.SHAPES`, several separated by `|`, a schema, or None for no body."""
    query: tuple[str, ...] = ()
    body: Mapping[str, str | Schema] = field(default_factory=dict)
    """By media type."""
    body_required: bool = True
    header: tuple[str, ...] = ()
    sends: tuple[str, ...] = ()
    """Headers of its successful responses; see `SENT`."""
    known: bool | None = None
    """Whether it needs a token. None: only if it changes something."""
    conflicts: bool = False
    """Whether 409 is possible: a name is taken, or another object prevents the change."""
    tag: str = "models"
    media: str = JSON
    """Media type of the responses."""
    writes: bool = False
    """In the resource API: only for kinds that callers may write."""
    only: str = ""
    """In the resource API: the only kind that has it."""

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
    "namespace": (rules.NAME, "The namespace; `default` if absent."),
    "limit": (
        {**NUMBER, "minimum": 1, "maximum": LARGEST},
        "Maximum number of items per page: at most 5,000, and fewer if they are large.",
    ),
    "continue": (text(), "Start of the page: `metadata.continue` of the previous page."),
    "labelSelector": (rules.SELECTOR, "Select objects by labels: `a=b,c!=d,e in (f,g),!h`."),
    "fieldSelector": (
        text(),
        "Select objects by fields: `metadata.name!=iris,spec.modelName=iris`. Each kind supports its own fields.",
    ),
    "watch": (FLAG, "Stream changes instead of a list: one JSON object per line."),
    "resourceVersion": (
        text(),
        "Watch changes after this version. If absent, the watch starts with all existing objects.",
    ),
    "timeoutSeconds": ({**NUMBER, "minimum": 1, "maximum": watch.DAY}, "End the watch after this time."),
    "resourceVersionMatch": (text(), "For a list: accepted and ignored. A list always shows the newest state."),
    "allowWatchBookmarks": (FLAG, "For a watch: allow lines of type BOOKMARK, which report its progress."),
    "sendInitialEvents": (FLAG, "For a watch: start with all existing objects, and mark their end with a BOOKMARK."),
    "dryRun": ({"type": "string", "enum": ["All"]}, "Do everything except write."),
    "fieldManager": (text(), "The owner of the written fields: the client's name for itself."),
    "fieldValidation": (
        {"type": "string", "enum": ["Ignore", "Warn", "Strict"]},
        "Treatment of unknown fields: Strict, the default, rejects them; the others drop them.",
    ),
    "force": (FLAG, "For an apply: take over fields from their owners."),
    "propagationPolicy": (
        {"type": "string", "enum": ["Background", "Foreground"]},
        "Foreground first deletes the dependents; otherwise an object in use is not deleted.",
    ),
    "gracePeriodSeconds": (
        {**NUMBER, "minimum": 0, "maximum": LARGEST},
        "Accepted and ignored: processes end as soon as they can.",
    ),
    "orphanDependents": (
        {"type": "boolean", "enum": [False]},
        "Only false is accepted: dependents do not outlive their owner.",
    ),
    "pretty": (text(), "Accepted and ignored."),
    "assume": ({"type": "string"}, "With dryRun: objects to treat as existing, as comma-separated `Kind/name`."),
    "includeObject": (
        {"type": "string", "enum": ["None", "Metadata", "Object"]},
        "If `Accept` asks for a Table: what each row includes. Default: Metadata.",
    ),
    "timeout": (text(), "Accepted and ignored: the response comes at once."),
    "hash": (text(), "Hash of the document from the index; with it, the response may be cached forever."),
    "tail": ({**NUMBER, "minimum": 0, "maximum": 1_000_000}, "Return only this many of the last lines."),
    "follow": (FLAG, "Stream new lines as they are printed."),
    "places": (FLAG, "Insert lines that begin with NUL and give the current position."),
    "after": (rules.like(workload_logs.PLACE), "Continue at a position from such a line."),
    "cascade": (FLAG, "First delete the dependents: versions, servers, jobs, a monitor."),
    "wait": (FLAG, "Respond only after it is gone; for a job set, after it has ended."),
    "state": ({"type": "string", "enum": list(routes.STATES)}, "State of the job sets to list; `ongoing` if absent."),
    "tag": (text(), "Only series of this scalar."),
    "version": (rules.VERSION, "Only series of this version."),
    "job": (text(), "Only series of this job set."),
    "points": (
        {**NUMBER, "minimum": 4, "maximum": curve.KEPT},
        f"Maximum points of a series, {comparison.POINTS} if absent. They include the first, last, lowest and highest.",
    ),
    "replica": (rules.like(job_logs.REPLICA), "Only this replica, such as `worker-0`."),
    "training": (FLAG, "For files in the body: they are code to train, with nothing to load yet."),
    "at": (rules.TIME, "A time, such as `2026-01-31T12:00:00Z`: return the model as it was then."),
    "framework": (rules.FRAMEWORK, "For files in the body: the framework that loads them."),
    "entrypoint": (text(), "For files in the body: what to load."),
    "image": (text(), "For files in the body: a container image that serves them."),
    "parentJob": (text(), "For files in the body: the TrainingJob that created them."),
    "labels": (text(), "For files in the body: labels, as `a=b,c=d`."),
    "python": (text(), "For files in the body: their Python version, such as `3.12`."),
    "build": (FLAG, "Return the log of its environment build instead."),
    "requirements": (text(), "For files in the body: Python packages, one per line."),
    "actor": (text(), "The caller."),
    "kind": (text(), "The kind of the object."),
    "name": (text(), "The name of the object."),
    "allowed": (FLAG, "Only allowed requests, or only denied ones."),
    "since": (rules.TIME, "From this time."),
    "minutes": (
        {**NUMBER, "minimum": 1, "maximum": usage.MOST_MINUTES},
        f"Length of the history, {usage.DEFAULT_MINUTES} if absent. In longer ones, points are 30 seconds apart.",
    ),
    "until": (rules.TIME, "Before this time."),
    "user": (text(), "Show the state of this user, for bandits that keep one per user."),
}
PATH_PARAMETERS: dict[str, str] = {
    "plural": "The plural name of the kind.",
    "namespace": "The namespace.",
    "name": "The object's name.",
    "model": "The model's name.",
    "version": "A number or a name. When adding a version, `auto` means the next number.",
    "alias": "The alias.",
    "server": "The server's id: the name of its InferenceModel.",
    "job": "The job set's id: the name of its TrainingJob.",
    "checkpoint": "The checkpoint's id.",
    "digest": "Digest of the file, as sha256:<hex>.",
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
"""Schemas of path parameters. The rules for names differ by kind."""
SENT: dict[str, tuple[Schema, str]] = {
    "Location": (text(), "The URL of the created object."),
    "Upload-Offset": ({**NUMBER, "minimum": 0}, "Bytes received so far."),
    "ETag": (text(), "Tag of the current document."),
}
HEADERS: dict[str, str] = {
    "Content-Range": "`bytes a-b/total`: the part of the file in the body; `bytes */total` only queries the offset.",
    "Idempotency-Key": "A key that the caller chooses: a request repeated with it within a day gets the first result.",
    "If-None-Match": "The ETag of the client's copy: 304 if the document is unchanged.",
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
    Operation("GET", "/", "index", "Links to the parts of the API.", {200: "Index"}, tag="plane"),
    Operation("GET", "/healthz", "health", "Whether the plane is alive.", {200: "Live"}, tag="plane"),
    Operation("GET", "/livez", "live", "The same, under the name that Kubernetes uses.", {200: "Live"}, tag="plane"),
    Operation("GET", "/readyz", "readiness", "Whether the plane has started; 503 until then.", {200: "Readiness"},
              tag="plane"),
    Operation("GET", "/version", "version", "Version of Mizzen.", {200: "Version"}, tag="plane"),
    Operation("GET", "/openapi.json", "openapi", "This document.", {200: {"type": "object"}, 304: None},
              header=("If-None-Match",), sends=("ETag",), tag="plane"),
    Operation("GET", "/usage", "usage",
              "Live figures and resource usage of served models, in one namespace or all, and of the plane.",
              {200: "Usage"}, query=("namespace",), tag="plane"),
    Operation("GET", "/usage/history", "usageHistory",
              "Past figures of models, by version; without a name, for as many models as one response holds.",
              {200: "UsageHistory"}, query=("name", "namespace", "minutes"), tag="plane"),
    Operation("GET", "/graph/{name}", "describeGraph",
              "Current state of an MLGraph: its nodes, and the traffic between them.",
              {200: "GraphView"}, query=HERE, tag="plane"),
    Operation("GET", "/graph/{name}/state", "graphState",
              "State of the graph's bandits, and the quality of each version at each node.", {200: "GraphState"},
              query=(*HERE, "user"), tag="plane"),
    Operation("GET", "/metrics", "metrics", "Metrics of the plane in the Prometheus text format.",
              {200: {"type": "string"}}, media="text/plain", tag="plane"),
)  # fmt: skip

RESOURCES: tuple[Operation, ...] = (
    Operation("GET", EVERYWHERE, "list{Kind}Everywhere", "List or watch objects in all namespaces.", {200: KIND_LIST},
              query=LISTED),
    Operation("GET", WITHIN, "list{Kind}", "List or watch objects.", {200: KIND_LIST}, query=LISTED),
    Operation("POST", WITHIN, "create{Kind}", "Create an object.", {201: KIND}, query=WRITTEN, body=one(KIND),
              conflicts=True, writes=True),
    Operation("DELETE", WITHIN, "deleteAll{Kind}", "Delete all selected objects that the caller may delete.",
              {200: KIND_LIST}, query=(*DELETED, *PAGE, *SELECTED, "resourceVersion", "resourceVersionMatch"),
              conflicts=True, writes=True),
    Operation("GET", ONE, "read{Kind}", "Read an object.", {200: KIND}, query=("resourceVersion", *SHOWN)),
    Operation("PUT", ONE, "replace{Kind}",
              "Replace an object; with `metadata.resourceVersion`, only if that is still its version.", {200: KIND},
              query=WRITTEN, body=one(KIND), conflicts=True, writes=True),
    Operation("PATCH", ONE, "patch{Kind}", "Patch an object, or apply it, which creates it if it is absent.",
              {200: KIND, 201: KIND}, query=(*WRITTEN, "force"), body=PATCHES, conflicts=True, writes=True),
    Operation("DELETE", ONE, "delete{Kind}",
              "Delete an object. The response is the object while finalizers hold it, else a Status.",
              {200: f"{KIND}|Status"}, query=DELETED, conflicts=True, writes=True),
    Operation("GET", f"{ONE}/status", "read{Kind}Status", "Read an object.", {200: KIND}, query=SHOWN, writes=True),
    Operation("PUT", f"{ONE}/status", "replace{Kind}Status", "Replace the status of an object. Needs `admin`.",
              {200: KIND}, query=PATCHED, body=one(KIND), conflicts=True, writes=True),
    Operation("PATCH", f"{ONE}/status", "patch{Kind}Status", "Patch the status of an object. Needs `admin`.",
              {200: KIND}, query=PATCHED, body=PATCHES, conflicts=True, writes=True),
    Operation("GET", f"{ONE}/scale", "read{Kind}Scale", "Read the desired and the actual number of replicas.",
              {200: "Scale"},
              query=("pretty", "timeout"), only=SCALED),
    Operation("PUT", f"{ONE}/scale", "replace{Kind}Scale", "Change the desired number of replicas.", {200: "Scale"},
              query=WRITTEN, body=one("Scale"), conflicts=True, only=SCALED),
    Operation("PATCH", f"{ONE}/scale", "patch{Kind}Scale", "Change the desired number of replicas.", {200: "Scale"},
              query=(*WRITTEN, "force"), body={**PATCHES, write.APPLY: "Scale"}, conflicts=True, only=SCALED),
    Operation("GET", f"{ONE}/log", "log{Kind}", "Log of its processes.", {200: {"type": "string"}},
              query=("tail", "follow", "places", "after", "build"), media="text/plain", only="InferenceModel"),
)  # fmt: skip

MODELS: tuple[Operation, ...] = (
    Operation("POST", "/model", "createModel", "Create a model.", {201: "ModelView"}, query=HERE, body=one("NewModel"),
              sends=("Location",), conflicts=True),
    Operation("GET", "/model", "listModels", "List models, by name.", {200: "ModelViewList"},
              query=(*HERE, *PAGE, "labelSelector")),
    Operation("GET", "/model/{model}", "describeModel",
              "Describe a model with its versions, servers, jobs and last change.",
              {200: "ModelDescription"}, query=HERE),
    Operation("DELETE", "/model/{model}", "deleteModel",
              "Delete a model: 409 lists what prevents it; 202 until it is gone.", {200: "Deleted", 202: "ModelView"},
              query=(*HERE, "cascade", "wait"), conflicts=True),
    Operation("GET", "/model/{model}/current", "currentVersion",
              "Current version of a model, since when, and set by whom.",
              {200: "CurrentVersion"}, query=HERE),
    Operation("POST", "/model/{model}/current", "promote", "Make a version current. A server of it must be ready.",
              {200: "ModelView"}, query=HERE, body=one("WhichVersion"), conflicts=True),
    Operation("POST", "/model/{model}/rollback", "rollback",
              "Roll back to the previous version, or to another that is served.",
              {200: "ModelView"}, query=HERE, body=one("WhichVersionOrPrevious"), body_required=False, conflicts=True),
    Operation("PUT", "/model/{model}/alias/{alias}", "pointAlias", "Point an alias at a version, or move it.",
              {200: "ModelView"}, query=HERE, body=one("WhichVersion"), conflicts=True),
    Operation("DELETE", "/model/{model}/alias/{alias}", "removeAlias", "Remove an alias.", {200: "ModelView"},
              query=HERE, conflicts=True),
    Operation("GET", "/model/{model}/history", "history",
              "All changes and decisions in chronological order, also of a deleted model.", {200: PAST},
              query=(*HERE, *PAGE, "at")),
    Operation("POST", "/model/{model}/version", "addNextVersion",
              "Add a version with the next number. A form sends the file in the field `code`.",
              {201: "VersionView"}, query=(*HERE, *ABOUT_FILES), body=FILES, sends=("Location",), conflicts=True),
    Operation("GET", "/model/{model}/version", "listVersions", "List versions.", {200: "VersionViewList"},
              query=(*HERE, *PAGE, "labelSelector")),
    Operation("POST", "/model/{model}/version/{version}", "addVersion",
              "Add a version under this number or name: 200 if exactly this version exists already.",
              {200: "VersionView", 201: "VersionView"},
              query=(*HERE, *ABOUT_FILES), body=FILES, sends=("Location",), conflicts=True),
    Operation("GET", "/model/{model}/version/{version}", "describeVersion",
              "Describe a version, and its changes since the previous one.", {200: "VersionDescription"}, query=HERE),
    Operation("DELETE", "/model/{model}/version/{version}", "deleteVersion", "Delete a version that nothing uses.",
              {200: "Deleted", 202: "VersionView"}, query=HERE, conflicts=True),
    Operation("POST", "/model/{model}/version/{version}/trust", "trustVersion",
              "Trust a version that another user created: its code and pickles may run. Needs `admin`.",
              {200: "VersionView"}, query=HERE, conflicts=True),
    Operation("POST", "/model/{model}/upload", "askUpload", "Find out which of these files have to be uploaded.",
              {200: "Missing"},
              query=HERE, body=one("Files"), conflicts=True),
    Operation("HEAD", "/model/{model}/upload/{digest}", "uploadOffset",
              "Bytes of a file received so far, in `Upload-Offset`.",
              {200: None}, query=HERE, sends=("Upload-Offset",), conflicts=True),
    Operation("PUT", "/model/{model}/upload/{digest}", "sendUpload",
              "Upload a file or a part of it: 201 once it is complete, 202 before that.",
              {201: "Piece", 202: "Piece"}, query=HERE, body={"application/octet-stream": _BYTES},
              header=("Content-Range",), sends=("Upload-Offset",), conflicts=True),
    Operation("POST", "/model/{model}/serve/{version}", "serve",
              "Create a server of a version, from a checkpoint (default: the newest) or, without any, its own files.",
              {201: "ServerView"}, query=HERE, body=one("NewServer"), body_required=False, sends=("Location",),
              conflicts=True),
    Operation("GET", "/model/{model}/serve/{version}", "listServers", "List the servers of a version.",
              {200: "ServerViewList"}, query=HERE),
    Operation("GET", "/model/{model}/serve/{version}/{server}", "describeServer", "Describe a server of a version.",
              {200: "ServerView"}, query=HERE),
    Operation("DELETE", "/model/{model}/serve/{version}/{server}", "deleteServer",
              "Delete a server: 202 until its processes have ended.", {200: "Deleted", 202: "ServerView"},
              query=(*HERE, "wait"), conflicts=True),
    Operation("POST", "/v2/repository/models/{model}/load", "load",
              "Restore the replicas of a model's servers, or create a server; responds once they are ready.",
              {200: "Loaded"}, query=HERE, conflicts=True),
    Operation("POST", "/v2/repository/models/{model}/unload", "unload",
              "Scale the servers of a model to zero; responds once their processes have ended.",
              {200: "Loaded"}, query=HERE, conflicts=True),
)  # fmt: skip

_VERSION_JOBS, _JOB = "/model/{model}/train/{version}", "/model/{model}/train/{version}/{job}"
_CHECKPOINT = f"{_JOB}/checkpoint/{{checkpoint}}"

TRAINING: tuple[Operation, ...] = (
    Operation("GET", "/model/{model}/train", "listModelJobs", "List the job sets of all versions of a model.",
              {200: "JobViewList"}, query=(*HERE, "state", *PAGE, "labelSelector")),
    Operation("POST", _VERSION_JOBS, "train",
              "Train a version: each call starts another job set; 200 for a call repeated with its key.",
              {200: "JobView", 201: "JobView"}, query=HERE, body=one("NewJob"), body_required=False,
              header=("Idempotency-Key",), sends=("Location",), conflicts=True),
    Operation("GET", _VERSION_JOBS, "listJobs",
              "List the job sets of a version: the ongoing ones, unless `state` says otherwise.",
              {200: "JobViewList"}, query=(*HERE, "state", *PAGE, "labelSelector")),
    Operation("GET", _JOB, "describeJob", "Describe a job set, its progress, and the servers of its checkpoints.",
              {200: "JobDescription"}, query=HERE),
    Operation("DELETE", _JOB, "terminateJob",
              "End a job set: 202 once that is recorded. Its record, logs and checkpoints stay.",
              {200: "JobView", 202: "JobView"}, query=(*HERE, "wait"), conflicts=True),
    Operation("POST", f"{_JOB}/suspend", "suspendJob", "Stop all replicas of a job set until it is resumed.",
              {200: "JobView"}, query=HERE, conflicts=True),
    Operation("POST", f"{_JOB}/resume", "resumeJob", "Resume a suspended job set.", {200: "JobView"},
              query=HERE, conflicts=True),
    Operation("GET", f"{_JOB}/logs", "jobLogs",
              "Log of its replicas, each line prefixed with the replica. `since` may also be a duration: `10m`.",
              {200: {"type": "string"}}, query=(*HERE, "follow", "tail", "since", "replica"), media="text/plain",
              known=True),
    Operation("GET", f"{_JOB}/checkpoint", "listCheckpoints",
              "List the checkpoints of a job set, newest first, even if its record is gone.", {200: "CheckpointList"},
              query=HERE),
    Operation("GET", _CHECKPOINT, "describeCheckpoint", "Describe a checkpoint, and its servers.", {200: "Checkpoint"},
              query=HERE),
    Operation("DELETE", _CHECKPOINT, "deleteCheckpoint", "Delete a checkpoint that no server uses.",
              {200: "DeletedCheckpoint"}, query=HERE, conflicts=True),
    Operation("GET", f"{_CHECKPOINT}/files", "checkpointFiles",
              "Download all its files as a tar archive. Needs a token.",
              {200: _BYTES}, query=HERE, media="application/octet-stream", known=True),
    Operation("POST", f"{_CHECKPOINT}/trust", "trustCheckpoint",
              "Trust a checkpoint of another user's job: its pickles may run. Needs `admin`.",
              {200: "Checkpoint"}, query=HERE),
)  # fmt: skip

_MONITOR = "/model/{model}/monitor"

MONITORS: tuple[Operation, ...] = (
    Operation("POST", _MONITOR, "startMonitor", "Start the monitoring tool of a model; 200 if it has one already.",
              {200: "MonitorView", 201: "MonitorView"}, query=HERE, body=one("NewMonitor"), body_required=False,
              conflicts=True),
    Operation("GET", _MONITOR, "describeMonitor", "Describe the monitoring tool of a model, with its URL for browsers.",
              {200: "MonitorView"}, query=HERE, known=True),
    Operation("DELETE", _MONITOR, "endMonitor",
              "End the monitoring tool, if there is one: 202 until its process has ended.",
              {200: "EndedMonitor", 202: "EndedMonitor"}, query=(*HERE, "wait")),
    Operation("POST", f"{_MONITOR}/ticket", "monitorTicket",
              "Create a URL that opens it in a browser without a token; valid once, for a short time.",
              {200: "MonitorTicket"}, query=HERE),
    Operation("GET", f"{_MONITOR}/scalars", "scalars",
              "Scalars that jobs logged, by step, and live figures of served versions.",
              {200: "Scalars"}, query=("tag", "version", "job", "points", *HERE), known=True),
)  # fmt: skip

PEOPLE: tuple[Operation, ...] = (
    Operation("GET", "/whoami", "whoami", "The caller's identity and rights.", {200: "WhoAmI"}, tag="people"),
    Operation("POST", "/user", "createUser", "Create a user.", {201: "User"}, body=one("NewUser"), conflicts=True,
              sends=("Location",), tag="people"),
    Operation("GET", "/user", "listUsers", "List users.", {200: "UserList"}, known=True, tag="people"),
    Operation("GET", "/user/{user}", "describeUser", "Describe a user, and the RoleBindings that name them.",
              {200: "UserDescription"}, known=True, tag="people"),
    Operation("DELETE", "/user/{user}", "deleteUser",
              "Delete a user and their tokens, and remove them from RoleBindings.",
              {200: "Deleted"}, tag="people"),
    Operation("POST", "/user/{user}/token", "createToken", "Create a token; it is shown only this once.",
              {201: "CreatedToken"}, body=one("NewToken"), body_required=False, sends=("Location",), tag="people"),
    Operation("GET", "/user/{user}/token", "listTokens", "List a user's tokens, without their secret values.",
              {200: "TokenList"}, known=True, tag="people"),
    Operation("DELETE", "/user/{user}/token/{token}", "revokeToken", "Revoke a token.", {200: "Token"}, tag="people"),
    Operation("GET", "/limit", "listLimits", "List rate limits.", {200: "LimitList"},
              known=True, tag="people"),
    Operation("PUT", "/limit/{subject}", "setLimit", "Set the rate limit of a subject.", {200: "Limit"},
              body={JSON: "LimitValues"}, tag="people"),
    Operation("GET", "/limit/{subject}", "describeLimit", "Describe the rate limit of a subject, and its usage.",
              {200: "Limit"},
              known=True, tag="people"),
    Operation("DELETE", "/limit/{subject}", "deleteLimit", "Delete the rate limit of a subject.",
              {200: "Deleted"}, tag="people"),
    Operation("GET", "/secret", "listSecrets", "List names and keys of secrets.", {200: "SecretList"}, query=HERE,
              known=True, tag="people"),
    Operation("PUT", "/secret/{secret}", "setSecret", "Replace all values of a secret.", {200: "Secret", 201: "Secret"},
              query=HERE, body={JSON: "SecretValues"}, tag="people"),
    Operation("PATCH", "/secret/{secret}", "changeSecret", "Add or replace values of a secret; the others stay.",
              {200: "Secret", 201: "Secret"}, query=HERE, body={JSON: "SecretValues"}, tag="people"),
    Operation("GET", "/secret/{secret}", "describeSecret", "List the keys of a secret. The API never returns values.",
              {200: "Secret"}, query=HERE, known=True, tag="people"),
    Operation("DELETE", "/secret/{secret}", "deleteSecret", "Delete a secret.", {200: "Deleted"}, query=HERE,
              tag="people"),
    Operation("GET", "/audit", "audit", "Audit log of writes and denied requests, newest first.",
              {200: "AuditEntryList"},
              query=("actor", "namespace", "kind", "name", "allowed", "since", "until", *PAGE), known=True,
              tag="people"),
)  # fmt: skip


def _group(version: str) -> str:
    """The group's part of an operation id."""
    return version.partition(".")[0]


_DISCOVERY: tuple[Operation, ...] = tuple(
    Operation("GET", path, id_, summary, {200: shape}, query=("timeout",), tag="kubernetes")
    for path, id_, summary, shape in (
        ("/api", "coreVersions", "List the versions of the core group.", "APIVersions"),
        ("/api/v1", "coreResources", "List the kinds of the core group with their verbs.", "APIResourceList"),
        ("/apis", "groups", "List all other groups and their versions.", "APIGroupList"),
        *((f"/apis/{version.partition('/')[0]}", f"{_group(version)}Group", f"Describe the group of {version}.",
        "APIGroup")
          for version in discovery.GROUPS),
        *((f"/apis/{version}", f"{_group(version)}Resources", f"List the kinds of {version} with their verbs.",
           "APIResourceList") for version in discovery.GROUPS),
        (openapi_v3.V2_PATH, "openapiV2", "Empty document, for clients that require one.",
         "OlderDocument"),
        (openapi_v3.ROOT, "openapiV3", "URLs of the documents of each group and version.", "Documents"),
    )
) + tuple(
    Operation("GET", f"{openapi_v3.ROOT}/{path}", f"openapiV3{name.title()}", f"The OpenAPI document of {path}.",
              {200: {"type": "object"}, 304: None}, query=("hash", "timeout"), header=("If-None-Match",),
              tag="kubernetes")
    for path, name in (("api/v1", "core"), *((f"apis/{version}", _group(version)) for version in discovery.GROUPS))
)  # fmt: skip

_EVENTS: tuple[Operation, ...] = (
    Operation("GET", events.EVERYWHERE, "listEventEverywhere", "List or watch Events in all namespaces.",
              {200: "EventList"}, query=LISTED, tag="kubernetes"),
    Operation("GET", events.WITHIN, "listEvent", "List or watch Events of the last hour.",
              {200: "EventList"}, query=LISTED, tag="kubernetes"),
    Operation("GET", f"{events.WITHIN}/{{name}}", "readEvent", "Read an Event.", {200: "Event"},
              query=("resourceVersion", *SHOWN), tag="kubernetes"),
)  # fmt: skip

_DEFINITIONS: tuple[Operation, ...] = (
    Operation("GET", crds.ROOT, "listCustomResourceDefinition", "List the kinds of this API.",
              {200: _ANY}, query=crds.LIST_QUERY, tag="kubernetes"),
    Operation("GET", f"{crds.ROOT}/{{name}}", "readCustomResourceDefinition", "Read the definition of a kind.",
              {200: _ANY}, query=crds.QUERY, tag="kubernetes"),
)  # fmt: skip


def _sent(shape: str) -> dict[str, str | Schema]:
    """JSON, or the protobuf that kubectl sends."""
    return {**one(shape), protobuf.MEDIA_TYPE: _BYTES}


_NAMESPACES: tuple[Operation, ...] = (
    Operation("GET", namespaces.ROOT, "listNamespace", "List or watch namespaces.", {200: "NamespaceList"},
              query=LISTED, tag="kubernetes"),
    Operation("POST", namespaces.ROOT, "createNamespace", "Create a namespace.", {201: "Namespace"},
              query=WRITTEN, body=_sent("Namespace"), conflicts=True, tag="kubernetes"),
    Operation("GET", f"{namespaces.ROOT}/{{name}}", "readNamespace", "Read a namespace.", {200: "Namespace"},
              query=("resourceVersion", *SHOWN), tag="kubernetes"),
    Operation("PUT", f"{namespaces.ROOT}/{{name}}", "replaceNamespace",
              "Replace the labels and annotations of a namespace.",
              {200: "Namespace"}, query=WRITTEN, body=_sent("Namespace"), conflicts=True, tag="kubernetes"),
    Operation("PATCH", f"{namespaces.ROOT}/{{name}}", "patchNamespace",
              "Patch the labels and annotations of a namespace.",
              {200: "Namespace", 201: "Namespace"}, query=(*WRITTEN, "force"),
              body={**PATCHES, write.APPLY: "Namespace"}, conflicts=True, tag="kubernetes"),
    Operation("DELETE", f"{namespaces.ROOT}/{{name}}", "deleteNamespace", "Delete a namespace and everything in it.",
              {200: "Namespace", 202: "Namespace"}, query=DELETED, conflicts=True, tag="kubernetes"),
)  # fmt: skip
_REVIEWS: tuple[Operation, ...] = tuple(
    Operation("POST", f"/apis/{version}/{plural}", id_, summary, {201: shape}, query=access_reviews.QUERY,
              body=_sent(shape),
              body_required=shape != "SelfSubjectReview", known=False, tag="kubernetes")
    for version, plural, id_, summary, shape in (
        (discovery.AUTHORIZATION, "selfsubjectaccessreviews", "reviewAccess",
        "Ask whether the caller may do something.",
         "SelfSubjectAccessReview"),
        (discovery.AUTHORIZATION, "selfsubjectrulesreviews", "reviewRules", "Ask what the caller may do.",
         "SelfSubjectRulesReview"),
        (discovery.AUTHENTICATION, "selfsubjectreviews", "reviewSelf", "Ask for the caller's identity.",
        "SelfSubjectReview"),
    )
)  # fmt: skip

KUBERNETES = (*_DISCOVERY, *_DEFINITIONS, *_EVENTS, *_NAMESPACES, *_REVIEWS)

OPERATIONS = (*PLANE, *MODELS, *TRAINING, *MONITORS, *PEOPLE, *KUBERNETES)
