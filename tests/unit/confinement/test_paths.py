"""Which paths a confined process sees: lists without what is protected, and the plan of its mounts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mizzen.confinement.files import mount_plan, readable_paths
from mizzen.confinement.files.mount_plan import MountPlan


def made(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")


def plan(
    root: Path,
    read: Sequence[str] = (),
    write: Sequence[str] = (),
    *,
    named: Sequence[str] = (),
    other_user: bool = False,
) -> MountPlan:
    """In a folder that counts as the data dir."""
    return mount_plan.plan(
        [str(root / "data")],
        [str(root / each) for each in read],
        [str(root / each) for each in write],
        named=named,
        home=str(root / "home"),
        other_user=other_user,
    )


def test_a_folder_is_listed_without_what_is_protected(tmp_path: Path) -> None:
    made(tmp_path, "a/x", "b/data/token", "b/y", "c")
    found = set(readable_paths.without(str(tmp_path), [str(tmp_path / "b/data")]))
    assert found == {str(tmp_path / each) for each in ("a", "b/y", "c")}


@pytest.mark.parametrize("path", ["data", "data/inner"])
def test_what_is_protected_has_no_part(tmp_path: Path, path: str) -> None:
    made(tmp_path, "data/inner/x")
    assert list(readable_paths.without(str(tmp_path / path), [str(tmp_path / "data")])) == []


def test_a_name_with_the_same_beginning_is_another_one(tmp_path: Path) -> None:
    made(tmp_path, "data/x", "data-of-others/x")
    other = str(tmp_path / "data-of-others")
    assert list(readable_paths.without(other, [str(tmp_path / "data")])) == [other]


def test_links_do_not_lead_out_of_a_listed_folder(tmp_path: Path) -> None:
    made(tmp_path, "open/data/token", "open/y")
    (tmp_path / "open" / "link").symlink_to(tmp_path / "open" / "data")
    found = list(readable_paths.without(str(tmp_path / "open"), [str(tmp_path / "open/data")]))
    assert found == [str(tmp_path / "open/y")]


def test_a_root_folder_is_readable_except_for_the_data_dir(tmp_path: Path) -> None:
    made(tmp_path, "data/admin-token")
    found = readable_paths.readable([str(tmp_path / "data")], ["/"])
    assert not any(str(tmp_path / "data").startswith(f"{path.rstrip('/')}/") for path in found)
    assert not any(path.startswith(str(tmp_path / "data")) for path in found)


def test_the_data_dir_is_hidden_but_for_own_folders(tmp_path: Path) -> None:
    made(tmp_path, "data/admin-token", "data/work/one/files/m", "data/work/one/scratch/x", "data/work/two/files/m")
    found = plan(tmp_path, ["data/work/one"], ["data/work/one/scratch"])
    assert any(str(tmp_path / "data").startswith(each) for each in found.hidden)
    assert str(tmp_path / "data/work/one") in found.keep
    assert found.write == (str(tmp_path / "data/work/one/scratch"),)
    assert not any("two" in each for each in found.keep)


def test_agents_and_keys_of_the_operator_are_hidden(tmp_path: Path) -> None:
    made(tmp_path, "home/.ssh/id", "home/.aws/credentials", "home/work/x", "data/x")
    found = plan(tmp_path)
    inside = [each for each in found.hidden if each.startswith(str(tmp_path / "home"))]
    covered = any(str(tmp_path).startswith(f"{each}/") for each in found.hidden)
    assert covered or inside == [str(tmp_path / "home/.aws"), str(tmp_path / "home/.ssh")]


def test_a_hidden_folder_that_is_kept_as_a_whole_is_not_hidden(tmp_path: Path) -> None:
    made(tmp_path, "home/.ssh/id", "data/x")
    found = plan(tmp_path, ["home"])
    assert str(tmp_path / "home/.ssh") not in found.hidden


def test_links_on_the_way_to_what_is_kept_stay(tmp_path: Path) -> None:
    made(tmp_path, "data/real/python")
    (tmp_path / "data" / "python").symlink_to("real/python")
    found = plan(tmp_path, ["data/real/python"], named=[str(tmp_path / "data/python")])
    assert (str(tmp_path / "data/python"), "real/python") in found.links
    assert str(tmp_path / "data/real/python") in found.keep


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    made(tmp_path, "data/x")
    (tmp_path / "data" / "a").symlink_to("b")
    (tmp_path / "data" / "b").symlink_to("a")
    assert plan(tmp_path, ["data/a"]).write == ()


def test_for_another_user_the_way_is_opened(tmp_path: Path) -> None:
    """By hiding the closed folder: what is kept of it is mounted below one that is open."""
    made(tmp_path, "closed/python/bin", "data/x")
    (tmp_path / "closed").chmod(0o700)
    closed = str(tmp_path / "closed")
    found = plan(tmp_path, ["closed/python"], other_user=True)
    assert any(closed == each or closed.startswith(f"{each}/") for each in found.hidden)
    assert f"{closed}/python" in found.keep
