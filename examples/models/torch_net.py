"""Write net.pt, TorchScript, and net.pt2, an exported program, to the current folder: what multiplies each of four
numbers by its place. For `pip install 'mizzen[torch]'`.
"""

from __future__ import annotations

import torch


class Weighed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weights", torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weights


torch.jit.script(Weighed()).save("net.pt")
sizes = {"x": {0: torch.export.Dim("rows")}}
torch.export.save(torch.export.export(Weighed(), (torch.zeros(2, 4),), dynamic_shapes=sizes), "net.pt2")
print("net.pt")
