"""Fit a line in several processes, each with its own rows, that add up their gradients over a socket.

    mizzen train start line --code examples/training/exchange --replicas 2 -- python exchange.py

Where they find each other is in MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE. The line that they find is that of all
rows: no process could find it with its own.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time

import numpy as np

from mizzen import training

RANK, WORLD = training.rank(), training.world_size()
ADDRESS = os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500"))


def connected() -> list[socket.socket]:
    """Of the first process, one to each of the others; of the others, one to the first."""
    if RANK == 0:
        with socket.create_server(ADDRESS) as server:
            return [server.accept()[0] for _ in range(WORLD - 1)]
    while True:  # the first may take longer to start than we do
        with contextlib.suppress(ConnectionRefusedError):
            return [socket.create_connection(ADDRESS)]
        time.sleep(0.05)


def received(other: socket.socket, like: np.ndarray) -> np.ndarray:
    data = other.recv(like.nbytes, socket.MSG_WAITALL)
    if len(data) < like.nbytes:
        raise ConnectionError("another process of this job ended")
    return np.frombuffer(data, like.dtype)


def summed(own: np.ndarray, others: list[socket.socket]) -> np.ndarray:
    """Over all processes, the same in each."""
    if RANK == 0:
        total = own + sum(received(other, own) for other in others)
        for other in others:
            other.sendall(total.tobytes())
        return total
    others[0].sendall(own.tobytes())
    return received(others[0], own)


params = training.params(steps=200, rate=0.5)
xs = np.linspace(0, 1, 100)[RANK::WORLD]
ys = 3 * xs + 1 + (0.5 if RANK % 2 else -0.5)  # each process alone would find a line beside the true one
weights, others = np.zeros(2), connected()
for step in range(1, params["steps"] + 1):
    off = weights[0] * xs + weights[1] - ys
    sums = summed(np.array([(off * xs).sum(), off.sum(), (off**2).sum(), len(xs)]), others)
    weights = weights - params["rate"] * sums[:2] / sums[3]
    if RANK == 0 and step % 20 == 0:
        training.report(step, total=params["steps"], loss=sums[2] / sums[3], slope=weights[0], offset=weights[1])
print(f"process {RANK} of {WORLD}: y = {weights[0]:.2f} x + {weights[1]:.2f}", flush=True)
if RANK == 0:
    training.save_checkpoint(lambda path: np.save(path, weights), "line.npy", step=params["steps"])
