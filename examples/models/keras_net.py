"""Write net/, a SavedModel, and net.keras to the current folder: a network that has learned whether four numbers are
positive in sum. For `pip install 'mizzen[tensorflow]'`.
"""

from __future__ import annotations

import keras
import numpy as np

rows = np.random.default_rng(7).normal(size=(512, 4)).astype(np.float32)
keras.utils.set_random_seed(1)
model = keras.Sequential(
    [
        keras.layers.Input((4,), name="x"),
        keras.layers.Dense(8, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid", name="positive"),
    ]
)
model.compile("adam", "binary_crossentropy")
model.fit(rows, rows.sum(axis=1) > 0, epochs=40, verbose=0)
model.export("net", verbose=False)
model.save("net.keras")
print("net")
