"""Files of a git repository at one commit, through the git program: no prompts, no hooks, no submodules, no filters.

The fetch resolves the ref; from then on only its commit counts, because branches move. Files are read from the commit's
tree and pass the same checks as those of an archive.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final
from urllib.parse import unquote, urlsplit

from mizzen.blobs.fs.folders import is_skipped
from mizzen.blobs.ingest import private_addresses
from mizzen.blobs.ingest.intake import Intake, path_fault
from mizzen.blobs.ingest.spool import disk_faults, new_folder
from mizzen.errors import Fault, Invalid, Unavailable

TIMEOUT: Final = 600.0
SCHEMES: Final = ("https", "http", "ssh", "git", "file")
_SCP = re.compile(r"(?P<at>([\w.-]+@)?[\w.-]+):(?!//)(?P<path>[^:].*)")
_REF = re.compile(r"[A-Za-z0-9_][\w./@+-]*")
_PINNING_SINCE = (2, 37)
_LONGEST_LINE = 8192


@dataclass(frozen=True, slots=True)
class Repository:
    """Where to fetch from, as checked by `repository`."""

    url: str
    """The address without credentials, for records."""
    scheme: str
    credentials: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Checkout:
    folder: Path
    commit: str


def repository(repo: str) -> Repository:
    """Parses a repository address. Raises Invalid for one that git must not get."""
    scp = _SCP.fullmatch(repo)
    if repo.startswith("/"):
        repo = f"file://{repo}"
    elif scp and "::" not in repo:
        repo = f"ssh://{scp['at']}/{scp['path'].removeprefix('/')}"
    try:
        parts = urlsplit(repo)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise _fault("git.repo", f"is not a valid URL: {error}") from error
    if parts.scheme not in SCHEMES or "::" in repo.partition("//")[0] or not re.fullmatch(r"[\x21-\x7e]{1,2048}", repo):
        raise _fault("git.repo", f"must be a URL that begins with {', '.join(SCHEMES)} or git@host:path")
    host = parts.hostname or ""
    if (not host and parts.scheme != "file") or host.startswith("-") or parts.path.startswith("/-"):
        raise _fault("git.repo", "is not the URL of a repository")
    if parts.scheme in ("http", "https"):
        credentials = unquote(parts.netloc.rpartition("@")[0])
        name = f"[{host}]" if ":" in host else host
        return Repository(f"{parts.scheme}://{name}{port}{parts.path}", parts.scheme, credentials)
    user = f"{parts.username}@" if parts.username and parts.scheme == "ssh" else ""
    if user.startswith("-"):
        raise _fault("git.repo", "is not the URL of a repository")
    return Repository(f"{parts.scheme}://{user}{host}{port}{parts.path}", parts.scheme)


@asynccontextmanager
async def fetch_commit(
    repo: Repository, ref: str, below: Path, *, most: int, private: bool, admin: bool
) -> AsyncIterator[Checkout]:
    """Fetches the commit that `ref` names now, into a temporary folder.

    `most`: maximum bytes. `private`: whether it may be in the plane's own network. `admin`: whether it may use this
    machine's files and the keys of the plane's user. Raises Invalid or Unavailable.
    """
    if not _REF.fullmatch(ref) or ".." in ref or ref.endswith((".lock", "/", ".")) or "@{" in ref:
        raise _fault("git.ref", f"{ref[:100]!r} is not a valid branch, tag or commit")
    if repo.scheme not in ("http", "https") and not admin:
        raise _fault("git.repo", f"only an admin may fetch by {repo.scheme}; use https")
    program = shutil.which("git")
    if program is None:
        raise Unavailable("there is no git on the plane's machine", hint="install git there, or send the files instead")
    handle, folder = await asyncio.to_thread(_new_folder, below)
    try:
        settings = await _settings(program, repo, private=private, admin=admin)
        run = _Git(program, folder, _environment(repo, settings, admin=admin), most)
        await run("init", "--quiet", "--bare", "--template=", str(folder), field="git.repo")
        await run(
            "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
            "--end-of-options", repo.url, f"+{ref}:refs/mizzen/wanted", field="git.ref", ref=ref,
        )  # fmt: skip
        commit = await run("rev-parse", "--verify", "--quiet", "refs/mizzen/wanted^{commit}", field="git.ref", ref=ref)
        yield Checkout(folder, commit.decode().strip())
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        os.close(handle)


def read_tree(checkout: Checkout, path: str, intake: Intake) -> None:
    """Puts all files below `path` of the commit into the intake; skips submodules, like a clone. Blocking."""
    tree = checkout.commit
    path = path.strip("/")
    if path and path != ".":
        fault = path_fault(path)
        if fault is not None:
            raise _fault("git.path", fault)
        tree = f"{checkout.commit}:{path}"
        kind = _run_local(checkout, "cat-file", "-t", "--end-of-options", tree)
        if kind is None:
            raise _fault("git.path", f"there is no '{path}' in commit {checkout.commit[:12]}")
        if kind.strip() == b"blob":
            found = _run_local(checkout, "rev-parse", "--verify", "--end-of-options", tree) or b""
            with _open_objects(checkout) as read:
                intake.add_file(path.rpartition("/")[2], read(found.split()[-1].decode()))
            return
    with _open_objects(checkout) as read:
        for mode, oid, name in _list_tree(checkout, tree):
            if mode == "160000" or is_skipped(name):
                continue
            content = read(oid)
            if mode == "120000":
                intake.add_symbolic_link(name, os.fsdecode(content.read(4096)))
            else:
                intake.add_file(name, content)
            content.drain()


class _Git:
    """Runs git in its own process group, which is killed on a timeout or when the caller is canceled."""

    def __init__(self, program: str, folder: Path, environment: Mapping[str, str], most: int) -> None:
        self._program = program
        self._folder = folder
        self._environment = environment
        self._blocks = most // 512 + 1

    async def __call__(self, *arguments: str, field: str, ref: str = "") -> bytes:
        # Bounds the size of each file: the shell sets the limit, and git and its children inherit it.
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", 'ulimit -f "$0" && exec "$@"', str(self._blocks), self._program, *arguments,
            cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, limit=1 << 20,
        )  # fmt: skip
        try:
            async with asyncio.timeout(TIMEOUT):
                out, err = await process.communicate()
        except TimeoutError as error:
            raise _fault("git.repo", f"took longer than {TIMEOUT:g} s") from error
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if process.returncode:
            raise _explain(err.decode(errors="replace"), field, ref, process.returncode)
        return out


def _explain(output: str, field: str, ref: str, code: int) -> Invalid:
    if "couldn't find remote ref" in output or "not our ref" in output or "unadvertised object" in output:
        short = " (a commit needs all its 40 digits)" if re.fullmatch(r"[0-9a-f]{4,39}", ref) else ""
        return _fault("git.ref", f"there is no branch, tag or commit '{ref}'{short}")
    if "File too large" in output or "signal 25" in output or code in (-25, 153):
        return _fault("git.repo", "is larger than the setting max_upload_bytes allows")
    lines = [line for line in output.splitlines() if line.startswith(("fatal:", "error:", "remote:", "ssh:"))]
    last = (lines or output.splitlines() or [f"git failed with code {code}"])[0]
    last = re.sub(r"//[^/@\s]+@", "//", last).removeprefix("fatal: ").removeprefix("error: ")
    return _fault("git.repo" if field != "git.ref" or "fatal" in output else field, last[:300])


async def _settings(program: str, repo: Repository, *, private: bool, admin: bool) -> dict[str, str]:
    # A redirect may lead anywhere, and would carry the credentials.
    follow = "initial" if admin and not repo.credentials else "false"
    settings = {"core.hooksPath": os.devnull, "core.askPass": "true", "http.followRedirects": follow, "gc.auto": "0"}
    if repo.credentials:
        settings["http.extraHeader"] = f"Authorization: Basic {b64encode(repo.credentials.encode()).decode()}"
    if repo.scheme in ("http", "https") and not private:
        parts = urlsplit(repo.url)
        port = parts.port or (443 if repo.scheme == "https" else 80)
        host = parts.hostname or ""
        found = await private_addresses.resolve_host(host, port, private=False, field="git.repo")
        if not private_addresses.is_address(host):
            await _demand_pinning(program)
            settings["http.curloptResolve"] = _resolve_option(host, port, found)
    return settings


def _resolve_option(host: str, port: int, addresses: Iterable[str]) -> str:
    """Returns curl's option that pins this name to exactly these addresses."""
    return f"{host}:{port}:{','.join(f'[{address}]' if ':' in address else address for address in addresses)}"


async def _demand_pinning(program: str) -> None:
    """Raises for an older git, which would resolve the name again and might reach another address."""
    process = await asyncio.create_subprocess_exec(program, "--version", stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    version = tuple(int(number) for number in re.findall(rb"\d+", out)[:2])
    if version < _PINNING_SINCE:
        raise Unavailable("the plane's git is too old: only admins may use it", hint="upgrade it to git 2.37 or later")


def _environment(repo: Repository, settings: Mapping[str, str], *, admin: bool) -> dict[str, str]:
    """Returns only the variables that git needs. Only admins may use the keys and home of the plane's user."""
    lent = ("HOME", "SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy") if admin else ()
    environment = {name: os.environ[name] for name in ("PATH", *lent) if name in os.environ}
    environment |= {
        "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "SSH_ASKPASS": "true",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=30", "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ALLOW_PROTOCOL": repo.scheme, "GIT_CONFIG_COUNT": str(len(settings)),
    }  # fmt: skip
    for number, (key, value) in enumerate(settings.items()):
        environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return environment


class _Content:
    """One object out of `git cat-file --batch`."""

    def __init__(self, pipe: IO[bytes], size: int) -> None:
        self._pipe = pipe
        self._left = size

    def read(self, size: int, /) -> bytes:
        data = self._pipe.read(min(size, self._left))
        self._left -= len(data)
        if not data and self._left:
            raise _fault("git.repo", "git ended in the middle of a file")
        return data

    def drain(self) -> None:
        while self.read(1 << 20):
            pass
        self._pipe.read(1)  # the trailing newline


@contextmanager
def _open_objects(checkout: Checkout) -> Iterator[Callable[[str], _Content]]:
    """Yields a function that returns the content of an object. Read each content before the next."""
    command = [*_local(checkout), "cat-file", "--batch"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_LOCAL)
    requests, objects = process.stdin, process.stdout
    assert requests is not None
    assert objects is not None

    def read(oid: str) -> _Content:
        requests.write(f"{oid}\n".encode())
        requests.flush()
        header = objects.readline(_LONGEST_LINE).split()
        if len(header) != 3 or header[1] != b"blob":
            raise _fault("git.repo", f"lacks the object {oid[:40]}")
        return _Content(objects, int(header[2]))

    try:
        yield read
    finally:
        process.kill()
        process.communicate()


def _list_tree(checkout: Checkout, tree: str) -> Iterator[tuple[str, str, str]]:
    """Yields (mode, object, path) of all files in a tree, streamed: there may be any number."""
    command = [*_local(checkout), "ls-tree", "-r", "-z", "--full-tree", "--end-of-options", tree]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=_LOCAL) as process:
        assert process.stdout is not None
        try:
            left = b""
            while piece := process.stdout.read(1 << 16):
                *lines, left = (left + piece).split(b"\0")
                for line in lines:
                    about, _, name = line.partition(b"\t")
                    mode, _, oid = about.decode().split(" ")
                    yield mode, oid, os.fsdecode(name)
        finally:
            process.kill()


def _run_local(checkout: Checkout, *arguments: str) -> bytes | None:
    done = subprocess.run(
        [*_local(checkout), *arguments], capture_output=True, check=False, env=_LOCAL, timeout=TIMEOUT
    )
    return done.stdout if done.returncode == 0 else None


def _new_folder(below: Path) -> tuple[int, Path]:
    with disk_faults():
        below.mkdir(parents=True, exist_ok=True)
        return new_folder(below, "git-")


def _local(checkout: Checkout) -> list[str]:
    return [shutil.which("git") or "git", f"--git-dir={checkout.folder}"]


_LOCAL = {
    "PATH": os.defpath, "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ALLOW_PROTOCOL": "",
}  # fmt: skip


def _fault(field: str, message: str) -> Invalid:
    return Invalid.of("the version", (Fault(field, message),))
