"""The data plane's door: HTTP in, frames to runtimes, HTTP out.

Here: reading requests (`front` for the hot URLs, `app` for all others), what an inference request is (`infer`), the
queues of served versions (`queues`), the connections to their replicas (`upstream`), the Table (`table`) and counters
(`metrics`). `serve` puts them together.

Not here: who decides what is served (the plane does, and writes the Table), tensor values (they pass through unread),
pydantic, stores, kinds, settings. The hot path runs on callbacks: no task, no coroutine, no timer per request.
"""
