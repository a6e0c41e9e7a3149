"""The plane reads files in folders that models may write to: links, pipes and large files there lead nowhere."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mizzen.confinement.files.untrusted_files import read_beginning
from mizzen.engines.local.environments import spec
from mizzen.engines.local.environments.lifecycle import _note_use
from mizzen.protocol.frames import authentication
from mizzen.runs import safe_read

Spoil = Callable[[Path, Path], None]


def link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def folder(path: Path, _: Path) -> None:
    path.mkdir()


spoiled = pytest.mark.parametrize("spoil", [link, pipe, folder])


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(b"s" * 32)
    return path


@spoiled
def test_last_words(tmp_path: Path, secret: Path, spoil: Spoil) -> None:
    spoil(tmp_path / "termination.0", secret)
    with pytest.raises(OSError, match=r".+"):
        read_beginning(tmp_path / "termination.0", 100)


def test_large_last_words(tmp_path: Path) -> None:
    with (tmp_path / "termination.0").open("wb") as file:
        file.truncate(1 << 40)
    assert read_beginning(tmp_path / "termination.0", 100) == bytes(100)


@spoiled
def test_the_key_of_a_socket(tmp_path: Path, secret: Path, spoil: Spoil) -> None:
    """A link would have the gateway prove to one model what another one asked for."""
    spoil(tmp_path / "0.sock.key", secret)
    with pytest.raises(OSError, match=r".+"):
        authentication.prove(str(tmp_path / "0.sock"), bytes(authentication.NONCE_BYTES))


@pytest.mark.parametrize("size", [0, 31, 33, 1 << 30])
def test_a_key_of_another_size(tmp_path: Path, size: int) -> None:
    with (tmp_path / "0.sock.key").open("wb") as file:
        file.truncate(size)
    with pytest.raises(OSError, match="is not a key"):
        authentication.prove(str(tmp_path / "0.sock"), bytes(authentication.NONCE_BYTES))


@pytest.mark.parametrize("size", [0, 15, 17, 1 << 20])
def test_a_challenge_of_another_size(tmp_path: Path, size: int) -> None:
    authentication.load_or_create(tmp_path / "0.sock.key")
    with pytest.raises(OSError, match="no proper challenge"):
        authentication.prove(str(tmp_path / "0.sock"), bytes(size))


@spoiled
def test_the_stamp_of_an_environment(tmp_path: Path, secret: Path, spoil: Spoil) -> None:
    paths = spec.EnvironmentPaths(tmp_path / "envs", "k")
    paths.folder.mkdir(parents=True)
    spoil(paths.stamp, secret)
    assert spec.read_stamp(paths) is None


def test_the_use_of_an_environment_is_noted_there_only(tmp_path: Path, secret: Path) -> None:
    paths = spec.EnvironmentPaths(tmp_path / "envs", "k")
    paths.folder.mkdir(parents=True)
    paths.used.symlink_to(secret)
    before = secret.stat().st_mtime_ns
    _note_use(paths, 4e9)
    assert secret.stat().st_mtime_ns == before
    paths.used.unlink()
    paths.used.symlink_to(tmp_path / "created")
    _note_use(paths, 8e9)
    assert not (tmp_path / "created").exists()


def test_no_link_above_a_file_is_followed(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "checkpoints" / "ckpt").mkdir(parents=True)
    (tmp_path / "checkpoints" / "ckpt" / "weights").write_text("w")
    with safe_read.open_beneath(tmp_path / "checkpoints", "ckpt/weights") as file:
        assert file.read() == b"w"
    (tmp_path / "checkpoints" / "away").symlink_to(tmp_path)
    for path in ("away/secret", "../secret", "ckpt/../../secret", "ckpt"):
        with pytest.raises(OSError, match=r".+"):
            safe_read.open_beneath(tmp_path / "checkpoints", path)


def test_a_folder_that_is_exchanged_for_a_link_all_the_time(tmp_path: Path, secret: Path) -> None:
    """Whoever wins the race, what is read is never the secret."""
    root = tmp_path / "checkpoints"
    (root / "real").mkdir(parents=True)
    (root / "real" / "secret").write_text("w")
    (root / "away").symlink_to(tmp_path)
    over = threading.Event()

    def exchange() -> None:
        while not over.is_set():
            for source in ("real", "away"):
                os.rename(root / source, root / "ckpt")
                os.rename(root / "ckpt", root / source)

    thread = threading.Thread(target=exchange)
    thread.start()
    read = set()
    try:
        for _ in range(20_000):
            try:
                with safe_read.open_beneath(root, "ckpt/secret") as file:
                    read.add(file.read())
            except OSError:
                continue
    finally:
        over.set()
        thread.join()
    assert read <= {b"w"}
