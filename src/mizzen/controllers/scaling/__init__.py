"""How many replicas an InferenceModel with `autoScale` gets: as many as the requests in flight ask for.

`rule` is the rule itself, pure; `autoscaler` looks at what gateways say is in flight
(`protocol/gateway_files/demand.py`), remembers it for as long as the rule looks back, and wakes the controller of
InferenceModels, which records the count in the status and does everything else. Whatever is recorded there counts as
asked for at the moment it is read: a plane that starts goes on with it.
"""
