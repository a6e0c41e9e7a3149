"""Every condition a status may hold and every reason it may give, each with what it means to whoever reads it; and what
else the Events of objects tell of.

docs/reference/conditions.md is made from here. A test fails on a reason that a controller or engine gives and that is
not here, and on one that is here and that nobody gives.
"""

from __future__ import annotations

TYPES: dict[str, str] = {
    "Accepted": "On every kind that people write: the spec can be worked with. False lists every fault; "
    "warnings stand in the message of a True one.",
    "Ready": "On an InferenceModel: what the spec asks for answers; during a switch, not yet, while the old one does. "
    "On an MLGraph: it answers at its url, maybe by an earlier spec. On a Monitor: what it shows can be seen at its "
    "url. On a Node: it was heard of lately.",
    "NodesReady": "On an MLGraph: all that its nodes call answers. Nodes that may be skipped do not count.",
    "Available": "On a Workload: at least one replica is ready.",
    "DiskRoom": "On a Node: its disk has room for what people send.",
    "Servable": "On a ModelVersion: a server of it answered once. False: it was tried and could not be loaded.",
    "Created": "On a TrainingJob: the job set is known. Of Queued, Running, Restarting, Suspended, Succeeded and "
    "Failed, exactly one holds beside it; those that do not are left out.",
    "Queued": "On a TrainingJob: nothing of it runs yet, or again; the message says what it waits for.",
    "Running": "On a TrainingJob: at least one replica runs, or brings its code and data, and none waits to be started "
    "again.",
    "Restarting": "On a TrainingJob: a replica ended and is started again after a while; others may run.",
    "Suspended": "On a TrainingJob: `spec.suspend` stopped all replicas.",
    "Succeeded": "On a TrainingJob: it ended well, and stays so.",
    "Failed": "On a TrainingJob: it ended badly, or somebody ended it, and stays so. The message says what to do.",
    "NoCheckpoint": "On a TrainingJob that succeeded: it saved nothing, so there is nothing of it to serve.",
}

TROUBLES = frozenset({"Restarting", "Failed", "NoCheckpoint"})
"""Types that tell of a trouble when they hold. All others do when they do not."""

REASONS: dict[str, str] = {
    # of Accepted
    "Accepted": "Nothing is wrong with the spec.",
    "AcceptedWithWarnings": "It is accepted, and the message says what is odd about it.",
    "InvalidSpec": "The stored spec breaks rules; the message lists the faults. Whatever runs, runs on.",
    "ModelNotFound": "The model that `spec.aliasOf` or `spec.modelName` names is not there. Create it, or name one.",
    "AliasChain": "`spec.aliasOf` names a second name. Name the model that the message says.",
    "VersionNotFound": "The version that is asked for is not there, or the model has no current one. Register it.",
    "GraphCycle": "The graph calls itself, through the graphs that the message names. What answered before goes on.",
    "TooDeep": "Graphs call graphs call graphs, more than 8 deep. What answered before goes on.",
    # of Ready, when nothing can be started
    "ContainersUnsupported": "It is a container image, and this engine runs none. Register a version from files.",
    "NoFiles": "The version holds neither files nor an image: there is nothing to load. Register it with its files.",
    "Fetching": "The archive that the manifest names is on its way; what answered before goes on.",
    "FetchFailed": "The archive cannot be had, or is not what it should be. It is tried again after a while.",
    "VersionConflict": "The version is there already, from another archive. Give the new one another version.",
    "CheckpointNotFound": "The checkpoint that is asked for is not there.",
    "Untrained": "The version is code, and no job has saved a checkpoint of it yet. Train it; what is saved is served.",
    "UnsupportedFramework": "Nothing here can load this framework; the message lists what can be loaded.",
    "RequirementsUntrusted": "Packages it requires are code, and nobody has vouched for the version: "
    "`mizzen version trust` does.",
    "NodeNotFound": "No Node has the name or the labels that are asked for.",
    "NodeNotReady": "A Node fits, and takes no work now.",
    "PlacementConflict": "`spec.nodeName` names a Node that breaks `spec.nodeSelector` or `spec.deployToLayer`.",
    # of Ready and Available, when replicas are wanted
    "Serving": "What is asked for answers, or, of an MLGraph, what the message says.",
    "ReplicasReady": "At least one replica is ready; the message says how many.",
    "ScaledToZero": "Nobody asked for a while, so none runs. The next request starts one, and waits for it.",
    "Waking": "Somebody asked while none ran: one is starting, and requests wait for it.",
    "NoReplicas": "None is wanted: `spec.replicas` is 0.",
    "NoRoom": "The disk has too little room for its files or its environment; what is served goes on.",
    "Starting": "A replica was started and has not answered yet.",
    "Routing": "It could answer; not all gateways know it yet.",
    "Reloading": "What answers loads the files of the version without a restart, and has the old ones until then.",
    "BuildingEnvironment": "What the version requires is being installed; the message says how far it is.",
    "EnvironmentFailed": "What the version requires cannot be installed. It is tried again after a while; "
    "`mizzen logs NAME --build` shows all that was printed.",
    "Stopping": "Replicas are ending.",
    "Ended": "It was a task, and has ended; its job says how.",
    "BackOff": "A replica ended, and is started again after a while.",
    "CrashLoop": "A replica ends again and again; its log says why.",
    "Failed": "A replica gave up for good, or its files cannot be had.",
    "LoadFailed": "The model cannot be loaded, however often it is tried. The message is its error.",
    "NotReadyInTime": "A replica was started and has not answered for ten minutes; its log may say why.",
    "OutOfMemory": "A replica was refused memory, and ended. Raise `spec.resources.memory`, or find out what it keeps.",
    "NoGpu": "It asks for a GPU, and this machine has none, or none is declared by the setting `gpus`.",
    "GpusTaken": "Others have the GPUs that it asks for; the message says who has how much. It starts once it can.",
    "SecretNotFound": "A variable takes its value from a secret that is not there. `mizzen secret set` makes it.",
    "SecretUnreadable": "A secret is there and cannot be decrypted. Set it again.",
    "Heard": "The machine said that it is there.",
    # of Ready, on a Monitor
    "Showing": "The tool answers.",
    "ToolMissing": "The tool is not installed, so our own viewer shows scalars. The message says how to install it.",
    "ToolUnknown": "Nothing is known of the tool or the framework, so our own viewer shows scalars.",
    "OtherMonitor": "The model has a monitor already, the one that the message names. Delete one of them.",
    # of the phases of a TrainingJob
    "WaitingForShare": "Others have the processors, the memory or the GPUs that the job asks for, or are before it.",
    "TooLarge": "The job set asks for more than this machine has. Ask for less, or run it on a larger one.",
    "ReplicasRunning": "Commands of the job set run.",
    "Suspended": "`spec.suspend` is true. `mizzen train resume` lets it go on, with its next attempt.",
    "Succeeded": "Those ended well whose success is the set's: the chief, else worker 0; or all workers.",
    "NothingSaved": "The code put nothing into `MIZZEN_CHECKPOINT_DIR`.",
    # of Failed, on a TrainingJob
    "Terminated": "Somebody ended the job set. Its logs and checkpoints stay.",
    "DeadlineExceeded": "It ran for longer than `spec.activeDeadlineSeconds`, over all restarts.",
    "BackoffLimitExceeded": "Its replicas were started again `spec.backoffLimit` times, and one ended badly once more.",
    "ReplicaFailed": "The command of a replica ended badly, for good by its restart policy; its log says why.",
    "NothingToRun": "Neither command nor template says what to run, and the version has no `train.py`.",
    "CodeUntrusted": "The version is code, and nobody has vouched for it: `mizzen version trust` does.",
    "CodeUnavailable": "The version's files cannot be had.",
    "DatasetUnavailable": "The dataset cannot be had, or is not what its digest says.",
    "CommandNotFound": "The command is not there, or cannot be started.",
    "StorageUnavailable": "What the command saved could not be kept: the store of blobs did not answer.",
    "Interrupted": "The machine, or all of its processes, went down while the command ran.",
    "RunnerLost": "The process that watched the command was killed, and the command with it.",
    # of NodesReady
    "AllReady": "All nodes are ready.",
    "NodesNotReady": "The nodes that the message names are not ready, each for the reason given there.",
    # of DiskRoom
    "EnoughRoom": "Files are taken, and changes.",
    "DiskLow": "Less is free than `disk_low_bytes`: no files are taken. Delete versions that nobody needs.",
    "DiskCritical": "Less is free than `disk_critical_bytes`: nothing is added, only deleted. What is served goes on.",
    # of Servable
    "NotServedYet": "No server of the version has answered yet.",
    "Served": "A server of the version answered.",
}

ORDINARY = frozenset(
    {
        "Starting", "Routing", "Reloading", "Fetching", "BuildingEnvironment", "Stopping", "Ended", "NoReplicas",
        "NotServedYet",
    }
)  # fmt: skip
"""Reasons for something not to be so that are nobody's trouble. All others, of what is not `True`, are."""

HAPPENINGS: dict[str, str] = {
    "Created": "What the object needs was made.",
    "Deleted": "What the object no longer needs is ending.",
    "Scaled": "There should be more replicas, or fewer: the message says why.",
    "Switched": "Another version answers than before, or another spec of a graph.",
    "Promoted": "A version became the current one of its model by itself: as the first, or as the latest.",
    "AliasMoved": "An alias, or a second name, is answered by another version.",
    "ReloadRefused": "What answers did not take the files of a version without a restart; it is started beside.",
    "ReplicaEnded": "A replica ended by itself; the message says how.",
}
"""Reasons that only Events give, beside those of conditions."""
