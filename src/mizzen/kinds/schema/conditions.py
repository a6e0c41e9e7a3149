"""Every condition type a status may hold, every reason it may give and what each means, and the reasons of Events.

docs/reference/conditions.md is generated from here. A test fails if a controller or an engine gives a reason that is
missing here, and if a reason listed here is never given.
"""

from __future__ import annotations

TYPES: dict[str, str] = {
    "Accepted": "On every kind that people write: the spec is valid. If False, the message lists every fault; "
    "if True, the message may hold warnings.",
    "Ready": "On an InferenceModel: the version that the spec asks for serves requests; during a switch it is False "
    "while the old version still serves. On an MLGraph: it serves requests at its url, perhaps by an earlier spec. On "
    "a Monitor: its tool can be opened at its url. On a Node: it sent a heartbeat recently.",
    "NodesReady": "On an MLGraph: everything that its nodes call is ready. Nodes that may be skipped do not count.",
    "Available": "On a Workload: at least one replica is ready.",
    "DiskRoom": "On a Node: its disk has room for uploads.",
    "Servable": "On a ModelVersion: a server of it has answered at least once. False: it could not be loaded.",
    "Created": "On a TrainingJob: the job set exists. Exactly one of Queued, Running, Restarting, Suspended, Succeeded "
    "and Failed is also present; the others are left out.",
    "Queued": "On a TrainingJob: it waits to start, for the first time or again; the message says why.",
    "Running": "On a TrainingJob: at least one replica runs or fetches its code and data; none waits for a restart.",
    "Restarting": "On a TrainingJob: a replica exited and will be restarted after a delay; others may be running.",
    "Suspended": "On a TrainingJob: `spec.suspend` stopped all replicas.",
    "Succeeded": "On a TrainingJob: it succeeded. This state is final.",
    "Failed": "On a TrainingJob: it failed, or a user terminated it. This state is final. The message says what to do.",
    "NoCheckpoint": "On a TrainingJob that succeeded: it saved no checkpoint, so there is nothing to serve.",
}

PROBLEM_TYPES = frozenset({"Restarting", "Failed", "NoCheckpoint"})
"""Types that signal trouble when they are True. All others do when they are not True."""

REASONS: dict[str, str] = {
    # of Accepted
    "Accepted": "The spec is valid.",
    "AcceptedWithWarnings": "The spec is valid; the message lists the warnings.",
    "InvalidSpec": "The stored spec is invalid; the message lists the faults. Running processes keep running.",
    "ModelNotFound": "`spec.aliasOf` or `spec.modelName` names a model that does not exist. Create it or name another.",
    "AliasChain": "`spec.aliasOf` names a model that is itself an alias. Use the model that the message names.",
    "VersionNotFound": "The requested version does not exist, or the model has no current version. Register it.",
    "GraphCycle": "The graph calls itself through the graphs that the message names. The previous spec keeps serving.",
    "TooDeep": "Graphs call other graphs more than 8 levels deep. The previous spec keeps serving.",
    # of Ready, when nothing can be started
    "ContainersUnsupported": "It is a container image, which this engine does not run. Register a version from files.",
    "NoFiles": "The version has neither files nor an image, so there is nothing to load. Register it with its files.",
    "Fetching": "The archive that the manifest names is being downloaded; the previous version keeps serving.",
    "FetchFailed": "The archive cannot be downloaded, or does not match its checksum. The download is retried later.",
    "VersionConflict": "The version was already made from another archive. Give the new one another version.",
    "CheckpointNotFound": "The requested checkpoint does not exist.",
    "Untrained": "The version is code, and no job has saved a checkpoint of it yet. Train it.",
    "UnsupportedFramework": "No loader for this framework is installed; the message lists the frameworks that work.",
    "RequirementsUntrusted": "No admin has trusted the packages that the version requires: run `mizzen version trust`.",
    "NodeNotFound": "No Node has the requested name or labels.",
    "NodeNotReady": "A Node matches, but does not accept work now.",
    "PlacementConflict": "The Node in `spec.nodeName` does not satisfy `spec.nodeSelector` or `spec.deployToLayer`.",
    # of Ready and Available, when replicas are wanted
    "Serving": "The requested version serves requests. On an MLGraph, the message says which spec does.",
    "ReplicasReady": "At least one replica is ready; the message says how many.",
    "ScaledToZero": "No replica is running, since there was no traffic. The next request starts one and waits for it.",
    "Waking": "A request arrived while no replica was running: one is starting, and requests wait for it.",
    "NoReplicas": "No replicas are wanted: `spec.replicas` is 0.",
    "NoRoom": "The disk has too little room for its files or its environment; the previous version keeps serving.",
    "Starting": "A replica was started and is not ready yet.",
    "Routing": "It is ready, but not all gateways have its route yet.",
    "Reloading": "The replicas are loading the version's files without a restart, and serve the old files until then.",
    "BuildingEnvironment": "The required packages are being installed; the message shows the progress.",
    "EnvironmentFailed": "The packages that the version requires cannot be installed. The build is retried later; "
    "`mizzen logs NAME --build` shows its whole output.",
    "Stopping": "The replicas are stopping.",
    "Ended": "It was a training task and has ended; its job says how.",
    "BackOff": "A replica exited and will be restarted after a delay.",
    "CrashLoop": "A replica keeps exiting; its log says why.",
    "Failed": "A replica failed permanently, or its files are unavailable.",
    "LoadFailed": "The model cannot be loaded, and a retry would not help. The message is the error.",
    "NotReadyInTime": "A replica was started and has not become ready for ten minutes; its log may say why.",
    "OutOfMemory": "A replica ran out of memory and exited. Raise `spec.resources.memory`, or reduce its memory use.",
    "NoGpu": "It needs a GPU, and this machine has none, or the setting `gpus` declares none.",
    "GpusTaken": "The GPUs that it needs are in use; the message says by what. It starts as soon as they are free.",
    "SecretNotFound": "A variable uses a secret that does not exist. Create it with `mizzen secret set`.",
    "SecretUnreadable": "A secret exists but cannot be decrypted. Set it again.",
    "Heard": "The machine sent a heartbeat.",
    # of Ready, on a Monitor
    "Showing": "The tool answers.",
    "ToolMissing": "The tool is not installed, so the built-in viewer is used. The message says how to install it.",
    "ToolUnknown": "The tool or the framework is unknown, so the built-in viewer shows scalars.",
    "OtherMonitor": "The model already has a monitor, which the message names. Delete one of them.",
    # of the phases of a TrainingJob
    "WaitingForShare": "Running jobs, or jobs ahead in the queue, take the CPUs, memory or GPUs that it needs.",
    "TooLarge": "The job set needs more than this machine has. Request less, or use a larger machine.",
    "ReplicasRunning": "Commands of the job set are running.",
    "Suspended": "`spec.suspend` is true. `mizzen train resume` continues the job with its next attempt.",
    "Succeeded": "The replicas that `spec.successPolicy` selects succeeded: the chief (else worker 0), or all workers.",
    "NothingSaved": "The code wrote nothing to `MIZZEN_CHECKPOINT_DIR`.",
    # of Failed, on a TrainingJob
    "Terminated": "A user terminated the job set. Its logs and checkpoints are kept.",
    "DeadlineExceeded": "It ran for longer than `spec.activeDeadlineSeconds`, restarts included.",
    "BackoffLimitExceeded": "Its replicas were restarted `spec.backoffLimit` times, and one failed again.",
    "ReplicaFailed": "The command of a replica failed, and its restart policy allows no restart; its log says why.",
    "NothingToRun": "The job has neither a command nor a template, and the version has no `train.py`.",
    "CodeUntrusted": "The version is code, and no admin has trusted it yet: run `mizzen version trust`.",
    "CodeUnavailable": "The version's files are unavailable.",
    "DatasetUnavailable": "The dataset is unavailable, or does not match its digest.",
    "CommandNotFound": "The command does not exist, or cannot be started.",
    "StorageUnavailable": "The checkpoints could not be stored: the blob store did not respond.",
    "Interrupted": "The machine, or all of its processes, went down while the command was running.",
    "RunnerLost": "The process that supervised the command was killed, and the command with it.",
    # of NodesReady
    "AllReady": "All nodes are ready.",
    "NodesNotReady": "Some nodes are not ready; the message names them, with the reasons.",
    # of DiskRoom
    "EnoughRoom": "Uploads and changes are accepted.",
    "DiskLow": "Free space is below `disk_low_bytes`: uploads are rejected. Delete versions that are no longer needed.",
    "DiskCritical": "Free space is below `disk_critical_bytes`: only deletions are accepted. Serving continues.",
    # of Servable
    "NotServedYet": "No server of the version has answered yet.",
    "Served": "A server of the version answered.",
}

EXPECTED_REASONS = frozenset(
    {
        "Starting", "Routing", "Reloading", "Fetching", "BuildingEnvironment", "Stopping", "Ended", "NoReplicas",
        "NotServedYet",
    }
)  # fmt: skip
"""Reasons for a condition that is not `True` and that are no cause for concern. All other reasons are."""

EVENT_REASONS: dict[str, str] = {
    "Created": "A resource that the object needs was created.",
    "Deleted": "A resource that the object no longer needs is being deleted.",
    "Scaled": "The desired number of replicas changed: the message says why.",
    "Switched": "A different version, or a different spec of a graph, now serves requests.",
    "Promoted": "A version became current automatically, because it is the model's first, or the latest.",
    "AliasMoved": "An alias, or a second name, now refers to another version.",
    "ReloadRefused": "Running replicas could not load files without a restart; new ones are started next to them.",
    "ReplicaEnded": "A replica exited; the message says how.",
}
"""Reasons that only Events give, in addition to those of conditions."""
