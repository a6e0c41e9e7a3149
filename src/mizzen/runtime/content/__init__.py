"""Inspection of untrusted model files before any framework reads them: what they contain, compared with allow-lists.

A module per format has a function `inspect(data)`, which raises Unproven for the first thing that is not known to be
harmless. Only the bytes that it returned for are given to the framework, so nothing can change in between. Nothing here
imports a framework, unpickles, or creates an object that a file names. Standard library and numpy only.

Loaders, which call this and know the rule of trust, are in `frameworks`.
"""
