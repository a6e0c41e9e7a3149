"""The usage and performance of the plane and its models: now, and for the last few hours.

Here: reading the count files of gateways and the resource usage of processes, and computing rates, quantiles and a
short history of them. It sends no requests and blocks no other component: a missing file or process counts as zero.
Not here: how usage is presented, which the control API does.
"""
