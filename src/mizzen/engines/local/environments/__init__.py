"""Environments of versions: the packages that one requires, installed once for all that require the same.

Here: what an environment is called and where it is, building one, who wants it, and when it goes. Not here: what runs
in it, which is `runtime/`.

`environments` for the engine: is it there, and if not, how far is it · `recipe` what it is made of, and its name ·
`build` the process that builds one, with `tools` (uv or pip), `pythons` (which interpreters there are) and `telling`
(what it says meanwhile) · `parts` the runtime, laid out for interpreters that are not ours.
"""
