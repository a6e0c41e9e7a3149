"""Files out of git repositories: the commit at once, its files exactly, and nothing that git could be talked into."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from mizzen.blobs.file_store import Entry, FileBlobs
from mizzen.blobs.ingest import git
from mizzen.blobs.ingest.intake import Intake
from mizzen.blobs.limits import IngestLimits
from mizzen.errors import Invalid, Unavailable
from tests.support.blobs.packing import content, outside


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    run(folder, "init", "--quiet", "--initial-branch=main")
    write(folder, {"model.py": "v1\n", "sub/data.bin": "data", "sub/deep/x": "x"})
    commit(folder, "first")
    run(folder, "tag", "-a", "v1", "-m", "one")
    return folder


def run(folder: Path, *arguments: str) -> str:
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env={**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def commit(folder: Path, message: str) -> str:
    run(folder, "add", "--all")
    run(folder, "commit", "--quiet", "-m", message)
    return run(folder, "rev-parse", "HEAD")


def fetch(
    blobs: FileBlobs,
    repo: str,
    ref: str = "HEAD",
    path: str = "",
    *,
    admin: bool = True,
    limits: IngestLimits | None = None,
) -> tuple[str, tuple[Entry, ...]]:
    bounds = limits or IngestLimits()

    async def main() -> tuple[str, tuple[Entry, ...]]:
        async with git.fetch_commit(
            git.repository(repo), ref, blobs.root / "incoming", most=bounds.upload_bytes, private=admin, admin=admin
        ) as checkout:
            intake = Intake(blobs.put, bounds, bounds.unpacked_bytes)
            await asyncio.to_thread(git.read_tree, checkout, path, intake)
            return checkout.commit, intake.entries()

    try:
        return asyncio.run(main())
    finally:
        assert not list((blobs.root / "incoming").glob("git-*"))


def test_branches_tags_and_commits(blobs: FileBlobs, repo: Path) -> None:
    first = run(repo, "rev-parse", "HEAD")
    write(repo, {"model.py": "v2\n"})
    second = commit(repo, "second")
    for ref, wanted, text in (
        ("main", second, b"v2\n"), ("HEAD", second, b"v2\n"), ("v1", first, b"v1\n"), (first, first, b"v1\n"),
        ("refs/heads/main", second, b"v2\n"),
    ):  # fmt: skip
        found, entries = fetch(blobs, f"file://{repo}", ref)
        assert found == wanted
        assert content(blobs, entries) == {"model.py": text, "sub/data.bin": b"data", "sub/deep/x": b"x"}


def test_a_folder_or_a_file_of_it(blobs: FileBlobs, repo: Path) -> None:
    assert content(blobs, fetch(blobs, str(repo), path="sub")[1]) == {"data.bin": b"data", "deep/x": b"x"}
    assert content(blobs, fetch(blobs, str(repo), path="sub/data.bin")[1]) == {"data.bin": b"data"}
    for path in ("none", "../sub", "sub/../../x"):
        with pytest.raises(Invalid, match=r"git\.path"):
            fetch(blobs, str(repo), path=path)


def test_what_is_in_the_tree_and_nothing_else(blobs: FileBlobs, repo: Path, tmp_path: Path) -> None:
    """No filters, no attributes, no hooks, no submodules; links as in archives."""
    other = tmp_path / "other"
    other.mkdir()
    run(other, "init", "--quiet")
    write(other, {"x": "x"})
    commit(other, "x")
    run(repo, "submodule", "--quiet", "add", str(other), "module")
    write(repo, {".gitattributes": "*.py export-subst\nsub export-ignore\n", "model.py": "$Format:%H$\n"})
    (repo / "link").symlink_to("sub/data.bin")
    commit(repo, "odd")
    found = content(blobs, fetch(blobs, str(repo))[1])
    assert found["model.py"] == b"$Format:%H$\n"
    assert found["link"] == found["sub/data.bin"] == b"data"
    assert set(found) == {".gitattributes", ".gitmodules", "model.py", "link", "sub/data.bin", "sub/deep/x"}
    (repo / "out").symlink_to("/etc/passwd")
    commit(repo, "worse")
    with pytest.raises(Invalid, match="outside"):
        fetch(blobs, str(repo))


def settings_for(repo: str) -> dict[str, str]:
    program = shutil.which("git")
    assert program is not None
    return asyncio.run(git._settings(program, git.repository(repo), private=False, admin=False))


def test_an_address_needs_no_pinning() -> None:
    """Curl could not even be told: it ends a host at its first colon."""
    for repo in ("https://[2606:4700::1111]/x.git", "https://[2606:4700::1111]:8443/x.git", "https://8.8.8.8/x.git"):
        assert "http.curloptResolve" not in settings_for(repo)
    for repo in ("http://[::1]/x", "http://[::ffff:10.0.0.1]/x", "http://127.1/x", "http://2130706433/x"):
        with pytest.raises(Invalid, match="own network"):
            settings_for(repo)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_name_is_pinned_to_its_addresses(address: str) -> None:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
        try:
            server.bind((address, 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        server.listen()
        server.settimeout(60)
        port = server.getsockname()[1]
        pinned = git._resolve_option("nowhere.invalid", port, [address])
        command = ["git", "-c", f"http.curloptResolve={pinned}", "ls-remote", f"http://nowhere.invalid:{port}/x"]
        quiet = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
        with subprocess.Popen(command, env=quiet, stderr=subprocess.DEVNULL) as process:
            asking, _ = server.accept()
            with asking:
                assert asking.recv(65536).startswith(b"GET /x/info/refs")
            process.kill()


@pytest.mark.parametrize(
    "repo",
    [
        "ext::sh -c touch% pwned", "--upload-pack=touch pwned", "-x", "fd::17", "ftp://host/x", "https://", "ssh://-oProxy/x",
        "file://", "relative/path", "https://host/a b", "https://host/\n", "", "ssh://-x@host/y", "testgit::/x",
    ],
)  # fmt: skip
def test_repositories_that_git_is_not_given(blobs: FileBlobs, tmp_path: Path, repo: str) -> None:
    with pytest.raises(Invalid, match=r"git\.repo"):
        fetch(blobs, repo)
    assert outside(tmp_path) == []


@pytest.mark.parametrize("ref", ["-x", "--upload-pack=x", "a b", "a:b", "+a", "a..b", "", "a@{1}", "a^", "x\n", "a~1"])
def test_refs_that_git_is_not_given(blobs: FileBlobs, repo: Path, ref: str) -> None:
    with pytest.raises(Invalid, match=r"git\.ref"):
        fetch(blobs, str(repo), ref)


def test_what_is_not_there(blobs: FileBlobs, repo: Path, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="no branch, tag or commit 'none'"):
        fetch(blobs, str(repo), "none")
    with pytest.raises(Invalid, match="all its 40 digits"):
        fetch(blobs, str(repo), run(repo, "rev-parse", "--short", "HEAD"))
    with pytest.raises(Invalid, match=r"git\.repo"):
        fetch(blobs, str(tmp_path / "nowhere"))


def test_only_admins_reach_this_machine(blobs: FileBlobs, repo: Path) -> None:
    for url in (f"file://{repo}", str(repo), "ssh://git@localhost/x", "git@localhost:x"):
        with pytest.raises(Invalid, match="only an admin"):
            fetch(blobs, url, admin=False)
    for url in ("http://127.0.0.1:1/x", "https://localhost/x.git", "http://[::1]/x", "http://169.254.169.254/x"):
        with pytest.raises(Invalid, match="own network"):
            fetch(blobs, url, admin=False)


def test_too_large(blobs: FileBlobs, repo: Path) -> None:
    (repo / "big").write_bytes(os.urandom(300_000))
    commit(repo, "big")
    with pytest.raises(Invalid, match="max_upload_bytes"):
        fetch(blobs, str(repo), limits=IngestLimits(upload_bytes=100_000))


def test_credentials_are_never_shown() -> None:
    found = git.repository("https://ann:s3cret@host:8443/team/repo.git")
    assert (found.url, found.credentials) == ("https://host:8443/team/repo.git", "ann:s3cret")
    assert "s3cret" not in repr(found)
    assert git.repository("git@host:team/repo.git").url == "ssh://git@host/team/repo.git"


def test_without_git(blobs: FileBlobs, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unavailable, match="no git"):
        fetch(blobs, str(repo))
