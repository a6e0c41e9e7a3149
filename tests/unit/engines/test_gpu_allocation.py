"""No device is ever given out more than once over, whatever comes and goes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mizzen.engines.local.gpus import allocation
from mizzen.engines.local.gpus.allocation import UNITS, Device, Holding
from tests.support.golden import Golden

TWO = (Device(0, 16 << 30), Device(1, 16 << 30))
AMOUNTS = st.one_of(st.sampled_from([0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0, 2.0, 3.0]), st.floats(0.0001, 1.0))


def hold(key: str, gpu: float, given_to_it: tuple[int, ...]) -> Holding:
    held = Holding.of(key, allocation.build_env(TWO, given_to_it, gpu, f"default/{key}"))
    assert held is not None
    return held


@given(
    st.integers(1, 4),
    st.lists(st.tuples(AMOUNTS, st.booleans(), st.integers(0, 20)), max_size=40),
)
def test_whatever_comes_and_goes_no_device_is_given_out_twice(
    number: int, steps: list[tuple[float, bool, int]]
) -> None:
    machine = tuple(Device(index) for index in range(number))
    held: list[Holding] = []
    for step, (gpu, leaves, which) in enumerate(steps):
        if leaves and held:
            held.pop(which % len(held))
            continue
        got = allocation.assign(machine, held, gpu)
        left = allocation.free_units(machine, held)
        units = UNITS if gpu > 1 else max(1, round(gpu * UNITS))
        fitting = [index for index in left if left[index] >= units]
        if got is None:
            assert len(fitting) < max(1, int(gpu)), "it is refused only where there is not enough"
            assert allocation.explain_shortage(machine, held, gpu)
            continue
        assert len(set(got)) == max(1, int(gpu))
        held.append(hold(str(step), gpu, got))
        assert all(units_left >= 0 for units_left in allocation.free_units(machine, held).values())


@given(st.lists(AMOUNTS, max_size=20), AMOUNTS)
def test_who_asks_again_keeps_what_it_has(others: list[float], gpu: float) -> None:
    got = allocation.assign(TWO, [], gpu)
    if got is None:
        return
    held: list[Holding] = [hold("me", gpu, got)]
    for at, other in enumerate(others):
        given_to_it = allocation.assign(TWO, held, other)
        if given_to_it is not None:
            held.append(hold(str(at), other, given_to_it))
    assert allocation.assign(TWO, held[1:], gpu, before=got) == got, "so a new plane changes nothing of what runs"


def test_shares_fill_a_device_before_the_next_is_begun() -> None:
    held = [hold("a", 0.3, (1,))]
    assert allocation.assign(TWO, held, 0.5) == (1,)
    assert allocation.assign(TWO, held, 0.8) == (0,)
    assert allocation.assign(TWO, held, 1) == (0,)
    assert allocation.assign(TWO, held, 2) is None


def test_ten_tenths_are_one_device() -> None:
    held = [hold(str(at), 0.1, (0,)) for at in range(9)]
    assert allocation.assign(TWO[:1], held, 0.1) == (0,)
    assert allocation.assign(TWO[:1], [*held, hold("9", 0.1, (0,))], 0.0001) is None


def test_a_shortage_says_who_has_what(golden: Golden) -> None:
    held = [hold("iris", 0.5, (0,)), hold("net", 0.4, (0,)), hold("big", 1, (1,))]
    golden.check(allocation.explain_shortage(TWO, held, 0.25))
    golden.check(allocation.explain_shortage(TWO, held, 3))


def test_what_a_replica_is_started_with() -> None:
    assert allocation.build_env(TWO, (1,), 0.5, "default/iris") == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "1",
        "MIZZEN_GPU_MEMORY_SHARE": "0.5",
        "MIZZEN_GPU_HOLDER": "default/iris",
        "MIZZEN_GPU_MEMORY": str(8 << 30),
    }
    assert Holding.of("k", allocation.HIDDEN) is None
    assert Holding.of("k", {"CUDA_VISIBLE_DEVICES": "0"}) is None, "of the user's own doing"
    for odd in ("inf", "nan", "x", "-1"):
        assert Holding.of("k", {"CUDA_VISIBLE_DEVICES": "0", "MIZZEN_GPU_MEMORY_SHARE": odd}) is None
