"""Flow control: how many requests of one actor execute at a time, how many wait, and in which order.

A burst of one actor waits in a queue of its own, so that it hardly delays others. Quotas of predictions (`access`) and
limits of connections (`web`) do not belong here.
"""
