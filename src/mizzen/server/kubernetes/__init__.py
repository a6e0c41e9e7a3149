"""The Kubernetes door: what kubectl and other clients of Kubernetes ask of a plane beside the objects themselves.

Here: discovery and `/version` (`discovery`), the OpenAPI documents that `kubectl explain` and `apply` read
(`documents`, made by `make gen`), our kinds as CustomResourceDefinitions (`definitions`, made by it too), what happened
to objects (`events`), namespaces (`namespaces`, `rooms`, `strategic`), what people ask of their rights (`reviews`,
`questions`) and how they send it (`protobuf`), objects as tables (`tables`, `ages`) for whoever asks for them
(`accept`, `shown`).
Nothing is taken from Kubernetes but its ways of speaking: there is no cluster behind it.
Not here: kinds (`kinds/`) and reading and writing their objects (`server/resources`).
"""
