"""deploy/grafana/mizzen.json: a dashboard for Grafana, from the rows of panels below.

Queries are written with `{of}`, which stands for the namespaces and models that whoever looks has picked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from string import ascii_uppercase
from typing import Any

PATH = "deploy/grafana/mizzen.json"
CHOSEN = 'namespace=~"$namespace",model=~"$model"'
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS, HEIGHT = 24, 8
SHARES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    about: str
    queries: tuple[tuple[str, str], ...]
    """What a line is called, and its query."""
    unit: str = "short"
    width: int = 8


def quantiles(histogram: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"{{{{model}}}} {{{{version}}}} {name}",
         f"histogram_quantile({share}, sum by (le, namespace, model, version) "
         f"(rate({histogram}_bucket{{of}}[$__rate_interval])))")
        for name, share in SHARES
    )  # fmt: skip


def rate(counter: str, by: str = "namespace, model, version", of: str = "{of}") -> str:
    return f"sum by ({by}) (rate({counter}{of}[$__rate_interval]))"


VERSION = "{{model}} {{version}}"
REPLICA = "{{server}} {{replica}}"

ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Requests",
        (
            Panel("Requests", "Answered in a second, by the name that was called.",
                  ((VERSION, rate("mizzen_requests_total")),), "reqps"),
            Panel("Errors", "Share of requests that failed by the fault of the plane or of a model (5xx).",
                  ((VERSION, rate("mizzen_requests_total", of='{{{chosen},code=~"5.."}}') + " / "
                    + rate("mizzen_requests_total")),), "percentunit"),
            Panel("Codes", "Requests by HTTP code; 499: the client left before its answer.",
                  (("{{code}}", rate("mizzen_requests_total", "code")),), "reqps"),
            Panel("Latency", "From the request being read to its answer.",
                  quantiles("mizzen_request_seconds"), "s", 16),
            Panel("In flight", "Requests that have begun and not ended.",
                  ((VERSION, "sum by (namespace, model, version) (mizzen_requests_in_flight{of})"),)),
        ),
    ),
    (
        "Queues and batches",
        (
            Panel("Queue wait", "From a request being read to a replica being sent it.",
                  quantiles("mizzen_queue_wait_seconds"), "s"),
            Panel("Waiting", "Calls that wait for a replica, and those of them that wait because none is ready.",
                  ((VERSION, "sum by (namespace, model, version) (mizzen_queue_length{of})"),
                   (f"{VERSION} held", "sum by (namespace, model, version) (mizzen_held_requests{of})"))),
            Panel("Batch size", "Calls in one call of the model: on average, and what 95 of 100 batches do not exceed.",
                  ((f"{VERSION} mean", rate("mizzen_batch_size_sum") + " / " + rate("mizzen_batch_size_count")),
                   (f"{VERSION} p95", "histogram_quantile(0.95, sum by (le, namespace, model, version) "
                    "(rate(mizzen_batch_size_bucket{of}[$__rate_interval])))"))),
            Panel("Time in the model", "Of a call: how long the model worked on the batch that it was in.",
                  ((VERSION, rate("mizzen_model_seconds_total") + " / " + rate("mizzen_queue_wait_seconds_count")),),
                  "s"),
            Panel("Turned away", "Calls refused because too many waited, out of time, or sent again after their "
                  "process was lost.",
                  (("{{model}} refused", rate("mizzen_shed_total", "model")),
                   ("{{model}} out of time", rate("mizzen_expired_total", "model")),
                   ("{{model}} again", rate("mizzen_retried_total", "model"))), "reqps"),
            Panel("Reached no model", "Requests refused before any model was asked, by HTTP code.",
                  (("{{code}}", rate("mizzen_refused_total", "code", "")),), "reqps"),
        ),
    ),
    (
        "Replicas",
        (
            Panel("Replicas", "Those that gateways may send to, and how many there should be.",
                  ((f"{VERSION} ready", "max by (namespace, model, version) (mizzen_replicas_ready{of})"),
                   (f"{VERSION} wanted", "mizzen_replicas_wanted{of}"))),
            Panel("Memory", "Resident memory of each replica.",
                  ((REPLICA, "mizzen_replica_resident_memory_bytes{of}"),), "bytes"),
            Panel("CPU", "Cores that each replica uses.",
                  ((REPLICA, "rate(mizzen_replica_cpu_seconds_total{of}[$__rate_interval])"),)),
            Panel("Restarts", "Of each replica, in the last hour.",
                  ((REPLICA, "increase(mizzen_replica_restarts_total{of}[1h])"),)),
        ),
    ),
    (
        "Cache and defaults",
        (
            Panel("Found in the cache", "Share of requests that were looked for; shared: that waited for another's.",
                  ((f"{VERSION} hit", rate("mizzen_cache_lookups_total", of='{{{chosen},result="hit"}}') + " / "
                    + rate("mizzen_cache_lookups_total")),
                   (f"{VERSION} shared", rate("mizzen_cache_lookups_total", of='{{{chosen},result="shared"}}') + " / "
                    + rate("mizzen_cache_lookups_total"))), "percentunit"),
            Panel("Kept", "Bytes of the answers that gateways keep.",
                  ((VERSION, "sum by (namespace, model, version) (mizzen_cache_bytes{of})"),), "bytes"),
            Panel("Default answers", "Requests that a default answered, by why.",
                  (("{{model}} {{reason}}", rate("mizzen_default_answers_total", "model, reason")),), "reqps"),
        ),
    ),
    (
        "Gateways and plane",
        (
            Panel("CPU", "Cores that each process uses.",
                  (("{{process}}", 'rate(process_cpu_seconds_total{{process!=""}}[$__rate_interval])'),)),
            Panel("Memory", "Resident memory of each process.",
                  (("{{process}}", 'process_resident_memory_bytes{{process!=""}}'),), "bytes"),
            Panel("Restarts", "Of each process, in the last hour.",
                  (("{{process}}", "increase(mizzen_process_restarts_total[1h])"),)),
            Panel("Controllers", "Objects that wait for their controller, and those that it cannot deal with.",
                  (("{{kind}} waiting", "sum by (kind) (mizzen_reconcile_queue_length) > 0"),
                   ("{{kind}} failing", "sum by (kind) (mizzen_reconcile_failing) > 0"))),
            Panel("Objects", "Of each kind.", (("{{kind}}", "mizzen_resources"),)),
            Panel("Store", "Size of the store's files.", (("store", "mizzen_store_bytes"),), "bytes"),
            Panel("Traces", "Requests whose spans a collector took, or nobody did; empty where nothing is traced.",
                  (("{{gateway}} sent", rate("mizzen_traces_sent_total", "gateway", "")),
                   ("{{gateway}} lost", rate("mizzen_traces_lost_total", "gateway", ""))), "reqps"),
            Panel("Disk", "Free on the disk of the data dir.", (("free", "mizzen_disk_free_bytes"),), "bytes"),
        ),
    ),
)  # fmt: skip


def pages() -> dict[str, str]:
    return {PATH: json.dumps(dashboard(), indent=2) + "\n"}


def queries() -> Iterator[str]:
    """Of all panels, as Grafana fills them in when everything is chosen."""
    for _, panels in ROWS:
        for panel in panels:
            for _, query in panel.queries:
                yield (
                    _filled(query).replace("$__rate_interval", "1m").replace("$namespace", ".*").replace("$model", ".*")
                )


def dashboard() -> dict[str, Any]:
    return {
        "title": "Mizzen",
        "uid": "mizzen",
        "tags": ["mizzen"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
            _variable("namespace", "Namespace", "label_values(mizzen_replicas_ready, namespace)"),
            _variable("model", "Model", 'label_values(mizzen_requests_total{namespace=~"$namespace"}, model)'),
        ]},
        "panels": list(_laid_out()),
    }  # fmt: skip


def _laid_out() -> Iterator[dict[str, Any]]:
    """From left to right, then below."""
    ids = count(1)
    top = 0
    for title, panels in ROWS:
        place = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        yield {"id": next(ids), "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        top += 1
        left = 0
        for panel in panels:
            if left + panel.width > COLUMNS:
                left, top = 0, top + HEIGHT
            place = {"x": left, "y": top, "w": panel.width, "h": HEIGHT}
            yield _panel(panel, next(ids), place)
            left += panel.width
        top += HEIGHT


def _panel(panel: Panel, id_: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": id_,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": _targets(panel.queries),
    }


def _targets(queries: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    return [
        {"refId": letter, "datasource": DATASOURCE, "expr": _filled(query), "legendFormat": legend}
        for letter, (legend, query) in zip(ascii_uppercase, queries, strict=False)
    ]


def _filled(query: str) -> str:
    return query.format(of=f"{{{CHOSEN}}}", chosen=CHOSEN)


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name, "label": label, "type": "query", "datasource": DATASOURCE, "refresh": 2, "sort": 1,
        "query": {"query": query, "refId": name}, "definition": query,
        "includeAll": True, "allValue": ".*", "multi": True, "current": {"text": ["All"], "value": ["$__all"]},
    }  # fmt: skip
