"""What is learnt from feedback: which arms answer well, and which request was answered by what.

`database` is the file that keeps it, for all gateways of a plane; `view` is how a gateway reads it for each request,
`desk` how it writes, `word` how the others learn of that at once. `records` keep what answered a request until feedback
for it can come no more. Here: files and their use. Not here: how arms are chosen and what a reward teaches
(`graph/bandits.py`), HTTP, what may be sent as feedback. Gateways import it: no pydantic, no kinds, no stores.
"""
