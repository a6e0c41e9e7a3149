"""Rules of this repository that no ready-made linter knows: layout, names, imports and words.

`python -m tools.lint` checks every file that git would track, and exits 1 when a rule is broken. Warnings do not fail.
"""
