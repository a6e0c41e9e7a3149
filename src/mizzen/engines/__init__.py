"""What runs things. `engine.py` is the protocol; `local/` runs processes under the supervisor of this machine.

Here: turning a Workload into running processes and telling what was seen. Not here: deciding what should run.
"""
