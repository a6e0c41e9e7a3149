"""`mizzen user`, `token`, `permit`, `whoami` and `audit`: access control."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from mizzen import errors
from mizzen.cli import completions, times
from mizzen.cli.help_format import Group
from mizzen.cli.output import Format
from mizzen.cli.parameters import argument, option
from mizzen.cli.session import PlaneSession, Session

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

user = Group("user", "Users: add, list, delete.", "mizzen user add ann", "mizzen token create ann")
token = Group("token", "Tokens of a user: create, list, revoke.", "mizzen token create ann --expires 30d")

UserArgument = Annotated[str, argument("USER", "Name of the user.", completions.users)]


@user.command("add")
def add_user(name: UserArgument, session: PlaneSession) -> None:
    """Add a user, who then needs a token. Until 'mizzen permit' grants more, they have the rights of anonymous callers.

    \b
    Example:
      mizzen user add ann
    """
    added = session.call(lambda plane: plane.add_user(name))
    session.write_outcome(added, f"user {name} added")


@user.command("list")
def list_users(session: PlaneSession) -> None:
    """List users.

    \b
    Example:
      mizzen user list
    """
    session.write_list(session.call(lambda plane: plane.users()), ("name", "created", "createdBy"), "no users")


@user.command("delete")
def delete_user(name: UserArgument, session: PlaneSession) -> None:
    """Delete a user. This revokes their tokens and removes all permissions granted to them by name.

    \b
    Example:
      mizzen user delete ann
    """
    gone = session.call(lambda plane: plane.delete_user(name))
    count = len(gone["bindings"])
    what = "1 RoleBinding that named them" if count == 1 else f"{count} RoleBindings that named them"
    session.write_outcome(gone, f"user {name} deleted{f', and removed from {what}' if count else ''}")


@token.command("create")
def create_token(
    name: UserArgument,
    expires: Annotated[str | None, option("Lifetime: 12h, 30d [default: forever].", metavar="SPAN")] = None,
    note: Annotated[str, option("Purpose of the token.")] = "",
    *,
    session: PlaneSession,
) -> None:
    """Create a token and print only the token. It is never shown again.

    \b
    Example:
      mizzen token create ann --expires 30d --note laptop
      export MIZZEN_TOKEN=$(mizzen token create ci)
    """
    created = session.call(lambda plane: plane.create_token(name, expires_in=expires, note=note))
    session.write_outcome(created, str(created["token"]))


@token.command("list")
def list_tokens(name: UserArgument, session: PlaneSession) -> None:
    """List the tokens of a user by id. The list includes expired and revoked tokens.

    \b
    Example:
      mizzen token list ann
    """
    found = session.call(lambda plane: plane.tokens(name))
    session.write_list(found, ("id", "valid", "created", "expires", "revoked", "note"), f"{name} has no tokens")


@token.command("revoke")
def revoke_token(
    name: UserArgument,
    token_id: Annotated[str, argument("ID", "Token id, as shown by 'mizzen token list'.", completions.tokens)],
    session: PlaneSession,
) -> None:
    """Revoke a token. It is rejected from the next request on.

    \b
    Example:
      mizzen token revoke ann 1f2e3d4c5b6a
    """
    session.call(lambda plane: plane.revoke_token(name, token_id))
    session.write_outcome({"user": name, "id": token_id, "revoked": True}, f"token {token_id} of {name} revoked")


def permit(
    *,
    name: Annotated[str, argument("USER", "User, group:NAME, or '*' for all users with a token.", completions.users)],
    verbs: Annotated[
        list[str], argument("VERB…", "Verbs: read, predict, write, admin.", completions.verbs_and_targets)
    ],
    target: Annotated[str, argument("TARGET", "Target: iris, iris@prod or namespace/default.")],
    revoke: Annotated[bool, option("Revoke these verbs.", "--revoke")] = False,
    session: Session,
) -> None:
    """Grant verbs on a model, an alias or a namespace.

    \b
    Example:
      mizzen permit ann read predict iris
      mizzen permit ci write namespace/default
      mizzen permit ann predict iris --revoke
    """

    if session.namespace and target.startswith("namespace/") and target != f"namespace/{session.namespace}":
        raise errors.Invalid(
            f"{target} and --namespace {session.namespace} name different namespaces", hint="leave out --namespace"
        )

    async def work(plane: AsyncPlane) -> list[str]:
        return await (plane.forbid if revoke else plane.permit)(name, *verbs, target=target)

    left = session.call(work)
    verdict = f"may {'still ' if revoke else ''}{' and '.join(left)}" if left else "has no direct permissions on"
    text = f"{name} {verdict} {target}{_describe_included(left, verbs) if revoke else ''}"
    session.write_outcome({"user": name, "verbs": left, "target": target}, text)


def whoami(session: PlaneSession) -> None:
    """Show your user name on the plane, and what you may do.

    \b
    Example:
      mizzen whoami
    """
    found = session.call(lambda plane: plane.whoami())
    session.write_lines(found, _permission_lines(found))


def _permission_lines(found: Mapping[str, Any]) -> Iterator[str]:
    groups = f" of {', '.join(found['groups'])}" if found.get("groups") else ""
    yield f"{found['name']}{groups}{', admin of the plane' if found.get('admin') else ''}"
    if found.get("admin"):
        return
    for binding in found.get("bindings") or ():
        yield f"may {' and '.join(binding['verbs'])} {_format_target(binding['target'])}"
    if found.get("open"):
        yield "may read and predict everything here: the plane allows anonymous access (setting anonymous)"


def audit(
    *,
    actor: Annotated[str | None, option("Only requests of this user.")] = None,
    refused: Annotated[bool, option("Only refused requests.", "--refused")] = False,
    since: Annotated[
        str | None, option("Only since an ISO time, or 10m, 2h, 3d ago.", metavar="TIME", callback=times.parse_option)
    ] = None,
    kind: Annotated[str | None, option("Only objects of this kind.")] = None,
    name: Annotated[str | None, option("Only objects of this name.")] = None,
    limit: Annotated[int, option("Maximum number of entries.", min=1, max=1000)] = 50,
    namespace: Annotated[str | None, option("Only this namespace.", "--namespace", "-n")] = None,
    session: PlaneSession,
) -> None:
    """List the audit log, newest first.

    It holds all requests to change something, and all refused requests with the reason.

    \b
    Example:
      mizzen audit --refused --since 1d
      mizzen audit --actor ann
    """
    query = {
        "actor": actor, "allowed": False if refused else None, "since": since, "name": name, "namespace": namespace,
        "kind": _resolve_kind(kind),
    }  # fmt: skip

    async def work(plane: AsyncPlane) -> list[dict[str, Any]]:
        return [entry async for entry in plane.audit(limit=limit, **query)]

    entries = session.call(work)
    keys = ("time", "actor", "verb", "kind", "namespace", "name", "allowed", "code", "request", "reason")
    if session.form is Format.TABLE:
        entries = [{**entry, "request": f"{entry.get('method')} {entry.get('path')}"} for entry in entries]
    session.write_list(entries, keys, "no entries")


def _resolve_kind(word: str | None) -> str | None:
    """The kind by any of its names, including audited kinds that are not resources."""
    if word is None:
        return None
    from mizzen.kinds.schema import names_and_columns

    other = {kind.lower(): kind for kind in ("User", "Secret", "AuditEntry", "Plane")}
    return other.get(word.lower()) or names_and_columns.find(word).name


def _describe_included(left: list[str], revoked: list[str]) -> str:
    """The revoked verbs that a remaining verb still includes, as text."""
    from mizzen.access.policy import INCLUDED

    by = {held: [verb for verb in revoked if verb in INCLUDED[held]] for held in INCLUDED if held in left}
    return "".join(f", and {held} includes {' and '.join(verbs)}" for held, verbs in by.items() if verbs)


def _format_target(target: dict[str, str]) -> str:
    if not target.get("model"):
        return f"namespace/{target.get('namespace', 'default')}"
    alias = f"@{target['alias']}" if target.get("alias") else ""
    where = "" if target.get("namespace", "default") == "default" else f" in namespace {target['namespace']}"
    return f"{target['model']}{alias}{where}"
