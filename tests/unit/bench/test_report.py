"""Tables: medians, ratios to the floors, what is left out, what is said about noise."""

from __future__ import annotations

from bench import report


def window(contestant: str, cpu_us: float, *, connections: int = 1, requests: int = 1000, other: float = 0.0,
           parts: dict[str, float] | None = None) -> report.Window:  # fmt: skip
    return report.Window(
        contestant=contestant,
        connections=connections,
        round=1,
        requests=requests,
        cpu_us=cpu_us,
        parts=parts or {contestant: cpu_us},
        per_second=1e6 / cpu_us,
        p50_ms=0.5,
        p99_ms=2,
        errors=1,
        other_cores=other,
    )


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_rows_are_medians_with_ratios_cheapest_first() -> None:
    windows = [window("fastapi", 400), *(window("mizzen", cost) for cost in (20, 90, 40)), window("nginx", 10)]
    lines = rows(report.load_table(windows))
    assert [line[1] for line in lines[2:]] == ["nginx", "mizzen", "fastapi"]
    assert lines[3][2:6] == ["40.0", "20.0-90.0", "4.00", "0.10"]
    assert lines[3][9] == "3"


def test_a_missing_floor_is_a_dash() -> None:
    (line,) = rows(report.load_table([window("mizzen", 20)]))[2:]
    assert line[4:6] == ["-", "-"]


def test_windows_with_too_few_requests_are_left_out_and_said_so() -> None:
    windows = [window("nginx", 10, connections=64), window("nginx", 99, connections=64, requests=191)]
    (line,) = rows(report.load_table(windows))[2:]
    assert line[2] == "10.0"
    assert "1 windows with too few requests" in report.noise(windows)


def test_parts_are_shown_for_servers_of_several_processes_only() -> None:
    assert report.parts_table([window("nginx", 10)]) == ""
    lines = rows(report.parts_table([window("mizzen", 30, parts={"gateway": 12, "runtime": 18})]))
    assert [line[2:] for line in lines[2:]] == [["gateway", "12.0"], ["runtime", "18.0"]]


def test_a_noisy_run_is_called_so() -> None:
    assert "quiet" in report.noise([window("nginx", 10, other=0.05)])
    assert "NOISY" in report.noise([window("nginx", 10, other=0.9)])


def test_footprints_have_a_row_per_role() -> None:
    print_ = report.Footprint("mizzen", 2.5, 3.25, 1.5, {"plane": (40, 30), "gateway": (41.25, 20)})
    assert [line[3:] for line in rows(report.footprint_table([print_]))[2:]] == [
        ["1.50", "gateway", "41.2", "20.0"],
        ["", "plane", "40.0", "30.0"],
    ]
