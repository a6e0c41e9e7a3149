"""How far a store must have come, by what is written outside of it, and what a start does if it has not.

Here: the sealed checkpoint file, the marks in published files, the examination of database and write-ahead log. Not
here: what the store contains.
"""
