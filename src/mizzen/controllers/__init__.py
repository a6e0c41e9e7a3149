"""One controller per kind: which other resources and which status a resource calls for.

Here: `load` and the pure `decide` of each kind, and the publisher of the Table.
Not here: how decisions are written (reconcile), how processes run (engines; only `workloads` calls one), HTTP.
Controllers do not import each other: they meet in the store.
"""
