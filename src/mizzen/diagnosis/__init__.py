"""What is wrong with a data dir, what can be repaired safely, and how its owner continues with an older store.

Here: reading the files and processes of one data dir, with or without a running plane. Not here: how a start refuses a
damaged store (`stores/marks`), and how results are printed.
"""
