"""Cgroups: one group per process that the plane starts, so that a kill reaches every descendant and limits hold.

Here: where groups can be created (`hierarchies`), what a group does (`groups`), and finding the groups of a data dir
without any record (`search`). Version 1, version 2, and both at once. Not here: who gets which limits.
"""
