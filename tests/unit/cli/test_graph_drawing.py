"""Graphs drawn on a terminal: as they look, and that nothing is lost of any."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.cli.models import graph_edges, graph_layout
from mizzen.cli.models.graph_drawing import Box, LabeledLine, draw, truncate

Node = tuple[str, str, dict[str, str]]
"""Name, what it does, and its dependencies with the labels of the lines from them."""


def picture(*nodes: Node, width: int = 100, dashed: str = "") -> str:
    boxes = [Box(name, (f"✓ {name}", does), dashed=name == dashed) for name, does, _ in nodes]
    lines = [LabeledLine(source, name, label) for name, _, sources in nodes for source, label in sources.items()]
    found = draw(boxes, lines, width)
    return "too wide" if found is None else "\n".join(found)


def chain(count: int) -> list[Node]:
    return [(f"n{at}", f"step:{at}", {f"n{at - 1}": "10/s"} if at else {}) for at in range(count)]


SPLIT = """\
               ╭───────╮
               │ ✓ a   │
               │ split │
               ╰───┬───╯
     ╭─────────────┼─────────────╮
     ▼ 9.0/s       ▼ 0.5/s       ▼ 0.5/s
╭─────────╮   ╭─────────╮   ╭─────────╮
│ ✓ b     │   │ ✓ c     │   │ ✓ d     │
│ iris:1  │   │ iris:2  │   │ iris:3  │
╰─────────╯   ╰─────────╯   ╰─────────╯"""


def test_a_split_of_three() -> None:
    arms = {"b": "9.0/s", "c": "0.5/s", "d": "0.5/s"}
    nodes = [(name, f"iris:{at}", {"a": arms[name]}) for at, name in enumerate(arms, 1)]
    assert picture(("a", "split", {}), *nodes) == SPLIT


ENSEMBLE = """\
╭─────────╮   ╭─────────╮   ╭─────────╮
│ ✓ b     │   │ ✓ c     │   │ ✓ d     │
│ iris:1  │   │ iris:2  │   │ iris:3  │
╰────┬────╯   ╰────┬────╯   ╰────┬────╯
     │ 3/s         │ 3/s         │ 3/s
     ╰─────────────┼─────────────╯
                   ▼
               ╭───────╮
               │ ✓ e   │
               │ mean  │
               ╰───────╯"""


def test_an_ensemble_of_three() -> None:
    members = [(name, f"iris:{at}", dict[str, str]()) for at, name in enumerate("bcd", 1)]
    assert picture(*members, ("e", "mean", dict.fromkeys("bcd", "3/s"))) == ENSEMBLE


CHAIN = """\
╭─────────╮
│ ✓ n0    │
│ step:0  │
╰────┬────╯
     ▼ 10/s
╭─────────╮
│ ✓ n1    │
│ step:1  │
╰────┬────╯
     ▼ 10/s
╭─────────╮
│ ✓ n2    │
│ step:2  │
╰────┬────╯
     ▼ 10/s
╭─────────╮
│ ✓ n3    │
│ step:3  │
╰────┬────╯
     ▼ 10/s
╭─────────╮
│ ✓ n4    │
│ step:4  │
╰─────────╯"""


def test_a_chain_of_five() -> None:
    assert picture(*chain(5)) == CHAIN


DIAMOND = """\
          ╭─────╮
          │ ✓ a │
          │ all │
          ╰──┬──╯
     ╭───────┴───────╮
     ▼ 10/s          ▼ 10/s
╭─────────╮   ╭┄┄┄┄┄┄┄┄┄┄┄┄┄╮
│ ✓ b     │   ┆ ✓ c         ┆
│ iris:1  │   ┆ iris-next:2 ┆
╰────┬────╯   ╰┄┄┄┄┄┄┬┄┄┄┄┄┄╯
     │ 10/s          │ 10/s
     ╰───────┬───────╯
             ▼
         ╭───────╮
         │ ✓ d   │
         │ vote  │
         ╰───────╯"""


def test_a_diamond_with_a_join() -> None:
    nodes: list[Node] = [
        ("a", "all", {}), ("b", "iris:1", {"a": "10/s"}), ("c", "iris-next:2", {"a": "10/s"}),
        ("d", "vote", {"b": "10/s", "c": "10/s"}),
    ]  # fmt: skip
    assert picture(*nodes, dashed="c") == DIAMOND


LONG = """\
       ╭─────╮
       │ ✓ a │
       │ all │
       ╰──┬──╯
     ╭────┴────╮
     ▼ 9.0/s   │ 1/s
╭─────────╮    │
│ ✓ b     │    │
│ iris:1  │    │
╰────┬────╯    │
     │ 7/s     │
     ╰────┬────╯
          ▼
      ╭───────╮
      │ ✓ c   │
      │ mean  │
      ╰───────╯"""


def test_a_line_that_passes_by_a_layer() -> None:
    assert picture(("a", "all", {}), ("b", "iris:1", {"a": "9.0/s"}), ("c", "mean", {"b": "7/s", "a": "1/s"})) == LONG


TANGLED = """\
  ╭─────╮   ╭─────╮
  │ ✓ a │   │ ✓ b │
  │ x   │   │ y   │
  ╰──┬──╯   ╰──┬──╯
    ╭┴─────────│╮
    ├──────────┴┤
    ▼           ▼
╭───────╮   ╭───────╮
│ ✓ c   │   │ ✓ d   │
│ mean  │   │ vote  │
╰───────╯   ╰───────╯

a → c  1/s
b → c  2/s
a → d  3/s
b → d  4/s"""


def test_labels_that_no_line_has_for_itself_stand_below() -> None:
    nodes: list[Node] = [
        ("a", "x", {}), ("b", "y", {}), ("c", "mean", {"a": "1/s", "b": "2/s"}), ("d", "vote", {"a": "3/s", "b": "4/s"})
    ]  # fmt: skip
    assert picture(*nodes) == TANGLED


def test_thirty_nodes_in_ten_layers() -> None:
    nodes: list[Node] = [
        (f"n{layer}-{at}", f"m:{layer}", {f"n{layer - 1}-{at}": "1/s"} if layer else {})
        for layer in range(10)
        for at in range(3)
    ]
    found = picture(*nodes).splitlines()
    assert len(found) == 10 * 4 + 9
    assert max(map(len, found)) == 39
    assert found[4].split() == ["▼", "1/s"] * 3


def test_thirty_nodes_side_by_side_are_too_wide() -> None:
    arms: list[Node] = [(f"arm-{at}", "iris", {"a": "1/s"}) for at in range(28)]
    assert picture(("a", "split", {}), *arms) == "too wide"
    assert picture(("a", "split", {}), *arms, width=1000) != "too wide"
    assert picture(*chain(2), width=8) == "too wide"


def test_a_huge_graph_is_given_up_soon() -> None:
    nodes: list[Node] = [("n0", "x", {})]
    nodes += [(f"n{at}", "x", dict.fromkeys([f"n{at - 1}", "n0"], "")) for at in range(1, 1000)]
    assert picture(*nodes) == "too wide"


def test_long_words_are_cut() -> None:
    assert truncate("x" * 26) == "x" * 26
    assert truncate("x" * 27) == "x" * 25 + "…"
    assert "…" in picture(("a", "a-service-far-away.example:8080/predict", {}))


def test_lines_from_nowhere_are_left_out() -> None:
    assert draw([Box("a", ("a",))], [LabeledLine("b", "a"), LabeledLine("a", "b")], 80) == ["╭───╮", "│ a │", "╰───╯"]


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    count = draw(st.integers(1, 9))
    nodes: list[Node] = []
    for at in range(count):
        sources = draw(st.sets(st.integers(0, at - 1), max_size=3)) if at else set[int]()
        labels = {f"n{source}": f"{source}-{at}" for source in sorted(sources)}
        nodes.append((f"n{at}", "x" * draw(st.integers(1, 12)), labels))
    return nodes


@settings(deadline=None, max_examples=200)
@given(graphs())
def test_nothing_is_lost(nodes: list[Node]) -> None:
    found = picture(*nodes, width=500)
    if found == "too wide":
        return  # too tangled
    words = found.split()
    for name, _, sources in nodes:
        assert sum(one == "✓" and other == name for one, other in pairwise(words)) == 1
        for label in sources.values():
            assert words.count(label) == 1, found
    # One for each node that something leads to, however many lines do.
    assert found.count("▼") == sum(bool(sources) for _, _, sources in nodes)


@settings(deadline=None)
@given(graphs())
def test_boxes_stand_apart_and_lines_meet_only_where_they_belong(nodes: list[Node]) -> None:
    widths = {name: len(does) + 4 for name, does, _ in nodes}
    lines = [(source, name, 3) for name, _, sources in nodes for source in sources]
    found = graph_layout.lay_out(widths, lines, 1000)
    assert found is not None
    for layer in found:
        for one, other in pairwise(layer):
            assert one.x + one.half < other.x - other.half
        nets = graph_edges.nets_of(layer)
        for net in nets or ():
            assert net.straight == (net.row == -1)
            for other_net in nets or ():
                if other_net is not net and net.row == other_net.row != -1:
                    assert net.columns[-1] < other_net.columns[0] or other_net.columns[-1] < net.columns[0]


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_into_the_columns_there_are(width: int) -> None:
    nodes: list[Node] = [("a", "all", {}), *((f"n{at}", "iris:1", {"a": "1.5/s"}) for at in range(5))]
    found = picture(*nodes, width=width)
    assert found != "too wide"
    assert max(map(len, found.splitlines())) <= width
