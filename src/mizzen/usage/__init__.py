"""What the plane and its models use, and how they are doing: now, and for some hours back.

Here is what reads the files that gateways leave and what the machine knows of processes, and what makes rates,
quantiles and a short history of that. It asks nobody and is in nobody's way: when a file or a process is not there, it
counts as nothing. How it is told is the control API's matter.
"""
