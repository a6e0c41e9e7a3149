"""One controller per kind: it decides which children and which status a resource should have.

Here: `load` and the pure `decide` of each kind, and the publishers of the Table and of access.json.
Not here: how decisions are written (reconcile), how processes run (engines; only `workloads` calls one), HTTP.
Controllers do not import each other: they communicate through the store. `reconcile.workloads` has what they share.
"""
