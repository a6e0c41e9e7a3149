"""The prediction cache: of equal requests one reaches the model, whether the others come meanwhile or later.

`cached` stands before a server's queue and decides; `keys` says which requests are equal, `kept` holds answers within a
number of bytes, `shared` is a call that several wait for. What is kept are payloads, as replicas gave them: whose
request it was, by which name it came and what it is called are put around it for each caller anew.

Nothing here is asked of servers without a cache: what their endpoints submit to is the queue itself.
"""
