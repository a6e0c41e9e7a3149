"""Metadata of a served name in the form of each protocol: V2 with the extensions of Triton, and V1 as TF Serving and
KServe have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.queueing.batch_stats import BatchStats
from mizzen.gateway.queueing.call import OK
from mizzen.gateway.queueing.signature import Hello, HelloTensor

EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "statistics")
SIGNATURE = "serving_default"

_TRITON = {"BYTES": "TYPE_STRING"}
_TENSORFLOW = {"BYTES": "DT_STRING", "FP16": "DT_HALF", "FP32": "DT_FLOAT", "FP64": "DT_DOUBLE"}
_NO_DURATION = {"count": 0, "ns": 0}


def metadata(name: str, versions: Iterable[str], hello: Hello) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": name,
        "versions": list(versions),
        "platform": hello.framework,
        "inputs": hello.inputs,
        "outputs": hello.outputs,
    }
    if hello.table is not None:
        document["parameters"] = {"table": hello.table}
    return document


def config(endpoint: Endpoint, hello: Hello) -> dict[str, Any]:
    """Triton's model configuration, as far as it applies here."""
    declared = (*hello.inputs, *hello.outputs)
    batches = hello.batch and bool(declared) and all(tensor.shape[:1] == [-1] for tensor in declared)
    return {
        "name": endpoint.name,
        "platform": hello.framework,
        "backend": hello.framework,
        "version_policy": {"specific": {"versions": [endpoint.version]}},
        "max_batch_size": max((queue.server.batch_size for queue in endpoint.queues), default=0) if batches else 0,
        "input": [_config_tensor(tensor, batches) for tensor in hello.inputs],
        "output": [_config_tensor(tensor, batches) for tensor in hello.outputs],
        **({"dynamic_batching": {}} if batches else {}),
    }


def statistics(endpoint: Endpoint, now: float, wall: float) -> dict[str, Any]:
    """Triton's statistics. Requests count for this name; batches, waits and model time for the servers behind it."""
    counters, queues = endpoint.counters, endpoint.queues
    succeeded, ended = counters.codes[OK], sum(counters.codes.values())
    tallies = [queue.stats for queue in queues]
    caches = [queue.cache for queue in queues if queue.cache is not None]
    items = sum(tally.items for tally in tallies)
    sizes = sorted({size for tally in tallies for size in tally.sizes})
    last = max((tally.answered_at for tally in tallies), default=0.0)
    return {
        "name": endpoint.name,
        "version": endpoint.version,
        "last_inference": int((wall - (now - last)) * 1000) if last else 0,
        "inference_count": succeeded,
        "execution_count": sum(tally.batches for tally in tallies),
        "inference_stats": {
            "success": _duration(succeeded, counters.seconds - counters.failed_seconds),
            "fail": _duration(ended - succeeded, counters.failed_seconds),
            "queue": _duration(items, sum(tally.waited_seconds for tally in tallies)),
            "compute_input": _duration(items, sum(tally.input_seconds for tally in tallies)),
            "compute_infer": _duration(items, sum(tally.compute_seconds for tally in tallies)),
            "compute_output": _duration(items, sum(tally.output_seconds for tally in tallies)),
            "cache_hit": _duration(sum(cache.hits for cache in caches), sum(cache.hit_seconds for cache in caches)),
            # The time of a lookup without a hit is not measured.
            "cache_miss": _duration(sum(cache.misses + cache.coalesced for cache in caches), 0.0),
        },
        "batch_stats": [_batch_stats(size, tallies) for size in sizes],
        "memory_usage": [],
    }


def readiness(name: str, endpoint: Endpoint) -> dict[str, Any]:
    """The readiness of a callable endpoint, with the reason if a call would wait for a replica."""
    document: dict[str, Any] = {"name": name, "ready": True}
    return document | {"reason": endpoint.reason} if endpoint.reason else document


def index_entry(endpoint: Endpoint) -> dict[str, str]:
    """An entry in the repository index."""
    ready = endpoint.callable
    return {
        "name": endpoint.name,
        "version": endpoint.version,
        "state": "READY" if ready else "UNAVAILABLE",
        "reason": endpoint.reason if ready else "no replica is ready",
    }


def v1_status(name: str, ready: bool, endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The answers of TF Serving and of KServe combined: each client reads its own fields."""
    return {"name": name, "ready": ready, "model_version_status": [_version_status(each) for each in endpoints]}


def v1_metadata(endpoint: Endpoint, hello: Hello) -> dict[str, Any]:
    signature = {
        "inputs": _tensor_infos(hello.inputs),
        "outputs": _tensor_infos(hello.outputs),
        "method_name": "tensorflow/serving/predict",
    }
    return {
        "model_spec": {"name": endpoint.name, "signature_name": "", "version": endpoint.version},
        "metadata": {"signature_def": {"signature_def": {SIGNATURE: signature}}},
    }


def _config_tensor(tensor: HelloTensor, batches: bool) -> dict[str, Any]:
    kind = _TRITON.get(tensor.datatype, f"TYPE_{tensor.datatype}")
    dims = tensor.shape[1:] if batches else tensor.shape
    return {"name": tensor.name, "data_type": kind, "dims": dims}


def _batch_stats(size: int, tallies: Iterable[BatchStats]) -> dict[str, Any]:
    """Statistics of batches of this size. Of Triton's three times only the model time is known."""
    count = sum(tally.sizes[size] for tally in tallies)
    return {
        "batch_size": size,
        "compute_input": _NO_DURATION,
        "compute_infer": _duration(count, sum(tally.seconds_of.get(size, 0.0) for tally in tallies)),
        "compute_output": _NO_DURATION,
    }


def _duration(count: int, seconds: float) -> dict[str, int]:
    return {"count": count, "ns": max(0, int(seconds * 1e9))}


def _version_status(endpoint: Endpoint) -> dict[str, Any]:
    state = "AVAILABLE" if endpoint.callable else "LOADING"
    return {"version": endpoint.version, "state": state, "status": {"error_code": "OK", "error_message": ""}}


def _tensor_infos(tensors: Sequence[HelloTensor]) -> dict[str, Any]:
    return {
        tensor.name: {
            "dtype": _TENSORFLOW.get(tensor.datatype, f"DT_{tensor.datatype}"),
            "tensor_shape": {
                "dim": [{"size": str(size), "name": ""} for size in tensor.shape],
                "unknown_rank": False,
            },
            "name": tensor.name,
        }
        for tensor in tensors
    }
