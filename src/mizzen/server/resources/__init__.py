"""The resource API: list, get, watch, write, delete, status and scale of any kind, as JSON or as a Table.

Behavior of one kind belongs to the group of that kind; Kubernetes-only endpoints belong to `server.kubernetes`.
"""
