"""HTTP as plane and gateway serve it: uvicorn's server on sockets that were handed in.

Neither process can be held up by clients that open connections and send nothing, or not all of it: those are closed
(`connections`), and there may be only so many of them that the process can still open files (`door`).
"""
