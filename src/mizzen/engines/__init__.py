"""Engines, which run Workloads. `engine.py` is the protocol; `local/` runs processes under this machine's supervisor.

Here: turning a Workload into running processes, and reporting their state. Not here: deciding what should run.
"""
