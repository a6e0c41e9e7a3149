from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mizzen.cli import output
from mizzen.cli.objects import history
from mizzen.cli.plane import foreground, log_tail, status_line, welcome
from mizzen.sdk.connection.locate import PlaneAddress
from tests.support.golden import Golden

USAGE = {
    "total": {"requestsPerSecond": 12.4, "p50": 0.0015},
    "models": [
        {"namespace": "default", "name": "iris", "replicasReady": 1},
        {"namespace": "default", "name": "iris", "replicasReady": 2},
        {"namespace": "default", "name": "rose", "replicasReady": 0},
    ],
}


def test_the_sentence_of_the_live_line(golden: Golden) -> None:
    golden.check(status_line.format_usage(USAGE))
    idle = {"total": {"requestsPerSecond": 0.0, "p50": None}, "models": []}
    golden.check(status_line.format_usage(idle))
    assert [status_line.format_duration(seconds) for seconds in (5, 65, 3720)] == ["5 s", "1 min 5 s", "1 h 2 min"]


def test_last_words_are_message_and_hint(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert foreground.last_message(log) == ("", "")
    log.write_text("Traceback\n  line\nValueError: no\n\n")
    assert foreground.last_message(log) == ("ValueError: no", "")
    log.write_text("INFO begins\nerror: others can read it\nhint: chmod 600 it\n")
    assert foreground.last_message(log) == ("others can read it", "chmod 600 it")


def test_age_in_the_largest_unit() -> None:
    now = datetime(2026, 1, 10, tzinfo=UTC)
    ages = {"7s": 7, "3m": 200, "2h": 7300, "5d": 5 * 86400}
    for wanted, seconds in ages.items():
        assert output.format_age((now - timedelta(seconds=seconds)).isoformat(), now) == wanted
    assert output.format_age(None) == ""
    assert output.format_age((now + timedelta(seconds=2)).isoformat(), now) == "0s", "clocks differ"


def test_lines_to_paste_fit_the_plane(golden: Golden) -> None:
    place = PlaneAddress("http://127.0.0.1:1", "http://127.0.0.1:2", None)
    with_demo = list(welcome.build_commands(place, {"iris": "4"}, "./mizzen", " --data-dir d"))
    assert len(with_demo) == 4
    assert with_demo[0].startswith("curl -s http://127.0.0.1:2/v2/models/iris/infer -d '{")
    golden.check(with_demo[1])
    golden.check(with_demo[3])
    judged = list(welcome.build_commands(place, {"iris": "4"}, "./mizzen", " --data-dir d", judged=True))
    assert len(judged) == 4
    assert json.loads(judged[0].split("'")[1])["id"] == "my-request"
    golden.check(judged[1])
    assert judged[2:] == [with_demo[1], with_demo[3]]
    closed = next(welcome.build_commands(place, {"iris": "4"}, "mizzen", "", Path("my dir/admin-token")))
    assert closed.startswith(
        """curl -s -H "Authorization: Bearer $(cat 'my dir/admin-token')" http://127.0.0.1:2/v2/"""
    )
    golden.check(next(welcome.build_commands(place, {}, "mizzen", "")))


def test_tail_follows_a_growing_and_a_rotated_file(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    file.write_text("one\ntwo\nthree\n")
    assert list(log_tail.tail([file], 2, follow=False)) == ["two\n", "three\n"]
    assert list(log_tail.tail([file], 0, follow=False)) == []
    lines = log_tail.tail([file], 1, follow=True)
    assert next(lines) == "three\n"

    def grow() -> None:
        with file.open("a") as log:
            log.write("four\n")

    threading.Timer(0.05, grow).start()
    assert next(lines) == "four\n"
    file.rename(tmp_path / "x.log.1")
    file.write_text("five\n")
    assert next(lines) == "five\n"


def test_several_logs_are_read_as_one_by_their_times(tmp_path: Path) -> None:
    files = [tmp_path / "access.gateway-0.log", tmp_path / "access.gateway-1.log"]
    files[0].write_text('{"time":"1"}\n{"time":"4"}\n')
    files[1].write_text('{"time":"2"}\n{"time":"3"}\n')
    assert [json.loads(line)["time"] for line in log_tail.tail(files, 3, follow=False)] == ["2", "3", "4"]
    lines = log_tail.tail(files, 0, follow=True)
    seen = threading.Event()

    def grow() -> None:
        """More than once: what is there before anybody reads is not told."""
        while not seen.wait(0.05):
            with files[1].open("a") as log:
                log.write("late\n")

    growing = threading.Thread(target=grow)
    growing.start()
    try:
        assert next(lines) == "late\n"
    finally:
        seen.set()
        growing.join()


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            {"aliases": {"prod": "1"}},
            {"aliases": {"prod": "2"}, "framework": "sklearn"},
            "aliases.prod: 1 -> 2; framework: - -> sklearn",
        ),
        ({"dag": [{"name": "a"}], "on": True}, {"dag": [{"name": "b"}, {}]},
         "dag[0].name: a -> b; on: true -> -; dag[1]: - -> {}"),
        ({"note": "a\n b"}, {"note": "c" * 100}, f"note: a b -> {'c' * 46}…"),
        ({"track": "latest"}, {"track": "latest"}, ""),
        (None, {"n": 1}, "n: - -> 1"),
    ],
)  # fmt: skip
def test_an_update_is_told_in_a_few_words(before: object, after: object, words: str) -> None:
    assert history.summarize_changes({"action": "updated", "before": before, "after": after}) == words
    assert len(words) <= history.MAX_SUMMARY
    assert history.summarize_changes({"action": "promoted", "before": before, "after": after}) == ""
