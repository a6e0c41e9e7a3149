"""The nouns of Mizzen: what people declare, as frozen types.

Here: fields, defaults, validation that needs no other object, the catalog of kinds.
Not here: input or output of any sort, stores, controllers, HTTP.
"""
