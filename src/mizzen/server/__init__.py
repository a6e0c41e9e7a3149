"""The control API: HTTP in, resources in the Store out.

Here: routes, who asks (`auth`), strict reading of what people send (`bodies`, `fields`, `admission`), and the one table
from errors to HTTP (`errors`). `resources` speaks the Kubernetes conventions; `models`, `versions` and `servers` are
the `/model` paths. Both doors delete through `removal`, so that they mean the same.
Not here: decisions about the world (controllers), predictions (gateway), storage.
"""
