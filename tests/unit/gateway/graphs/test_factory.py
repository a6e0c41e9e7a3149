"""What a gateway has once for all its graphs outlives the Tables that name it, and no longer."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import uvloop

from mizzen.gateway.graphs.factory import GraphFactory
from mizzen.gateway.queueing.deadline_timer import DeadlineTimer
from mizzen.gateway.route_table import Routes
from mizzen.graph import table_types
from mizzen.selection.cached_state import StateCache


def bandit(epsilon: float) -> table_types.CompiledGraph:
    route = table_types.Routing(kind="mab", children=(1, 2), policy=table_types.Policy(name="egreedy", epsilon=epsilon))
    ends = [table_types.Node(name=name, dependencies=(0,), call=table_types.Callee(name=name)) for name in "bc"]
    root = table_types.Node(name="a", children=(1, 2), route=route)
    return table_types.CompiledGraph(uid="u", generation=1, nodes=(root, *ends))


def test_a_bandit_is_not_begun_anew_by_each_table(tmp_path: Path) -> None:
    loop = uvloop.new_event_loop()
    begun: list[float] = []

    class Counted(StateCache):
        def selector_for(self, uid, node, policy, arms):  # type: ignore[no-untyped-def]
            begun.append(policy.epsilon)
            return super().selector_for(uid, node, policy, arms)

    making = GraphFactory(
        view=Counted(tmp_path / "state.db", tmp_path / "word", Random(1)), records=tmp_path / "records", gateway=0,
        limit=10, sweeper=DeadlineTimer(time.monotonic, loop.call_later), loop=loop, clock=time.monotonic,
        wall=time.time, rng=Random(1),
    )  # fmt: skip
    for epsilon in (0.1, 0.1, 0.1, 0.2, 0.1):
        making.bind_graph("default", "g", bandit(epsilon), None)
        making.retain(Routes(), [])
    assert begun == [0.1, 0.2, 0.1], "and what no Table names is forgotten"
    loop.run_until_complete(making.close())
    loop.close()
