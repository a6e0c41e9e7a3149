"""The kinds of Mizzen: the objects that people declare, as frozen types.

Here: fields, defaults, validation that needs no other object, the catalog of kinds.
Not here: I/O of any sort, stores, controllers, HTTP.
"""
