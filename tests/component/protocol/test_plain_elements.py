"""Elements without numpy: the same as `tensors` makes of them."""

from __future__ import annotations

import subprocess
import sys


def test_a_gateway_has_no_numpy_until_something_is_large() -> None:
    program = (
        "import sys\n"
        "from mizzen.gateway.queueing import signature\n"
        "from mizzen.graph import merging, messages\n"
        "from mizzen.protocol import v1\n"
        "declared = [signature.HelloTensor('x', 'FP32', [-1, 2])]\n"
        "entries, style = messages.parse_v1(b'{\"instances\": [[1, 2]]}', declared)\n"
        "members = [merging.EnsembleMember('a', 1.0, entries), merging.EnsembleMember('b', 1.0, entries)]\n"
        "messages.to_payload(merging.mean(members))\n"
        "messages.render_v1([('a', merging.vote(members)[0])], style)\n"
        "merging.pairwise_disagreement(members)\n"
        "assert 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
