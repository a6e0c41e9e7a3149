"""The control API: HTTP requests in, resources in the Store out.

`http` is the shared plumbing, `auth` authenticates and authorizes, `admission` checks what callers write. `resources`
and `kubernetes` serve the Kubernetes conventions; `models`, `versions`, `training` and `monitor` serve the `/model`
paths. Both APIs delete through `deletion`, so that the same rules apply.
Controllers' decisions, predictions (gateway) and storage do not belong here.
"""
