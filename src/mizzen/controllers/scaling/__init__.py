"""The number of replicas of an InferenceModel with `autoScale`, derived from its requests in flight.

`rule` is the pure scaling rule. `autoscaler` reads the in-flight counts that gateways report
(`protocol/gateway_files/demand.py`) and keeps them for as long as the rule looks back. It wakes the controller of
InferenceModels, which records the number in the status and does everything else. A recorded number counts as demand at
the moment it is read: a restarted plane continues with it.
"""
