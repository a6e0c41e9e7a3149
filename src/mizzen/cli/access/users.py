"""user, token, permit, whoami, audit: who may do what, and who did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import completions, output, times
from mizzen.cli.help_format import Group
from mizzen.cli.output import Format
from mizzen.cli.session import DataDir, Namespace, Output, call

if TYPE_CHECKING:
    from mizzen.sdk.client import AsyncPlane

user = Group(
    name="user",
    help="Users: add, list, delete.\n\n\b\nExample:\n  mizzen user add ann\n  mizzen token create ann",
    no_args_is_help=True,
)
token = Group(
    name="token",
    help="Tokens of a user: create, list, revoke.\n\n\b\nExample:\n  mizzen token create ann --expires 30d",
    no_args_is_help=True,
)

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The user's name.", autocompletion=completions.users)]


@user.command("add")
def add_user(name: UserArgument, data_dir: DataDir = None, form: Output = Format.TABLE) -> None:
    """Add a user. They may do what strangers may until 'permit' says more, and need a token.

    \b
    Example:
      mizzen user add ann
    """
    made = call(data_dir, lambda plane: plane.add_user(name))
    output.outcome(made, form, f"user {name} added")


@user.command("list")
def list_users(data_dir: DataDir = None, form: Output = Format.TABLE) -> None:
    """List users.

    \b
    Example:
      mizzen user list
    """
    output.listing(call(data_dir, lambda plane: plane.users()), ("name", "created", "createdBy"), "no users", form)


@user.command("delete")
def delete_user(name: UserArgument, data_dir: DataDir = None, form: Output = Format.TABLE) -> None:
    """Delete a user, revoke all their tokens and take back all that was permitted to them by name.

    \b
    Example:
      mizzen user delete ann
    """
    gone = call(data_dir, lambda plane: plane.delete_user(name))
    count = len(gone["bindings"])
    what = "1 RoleBinding that named them" if count == 1 else f"{count} RoleBindings that named them"
    output.outcome(gone, form, f"user {name} deleted{f', and taken out of {what}' if count else ''}")


@token.command("create")
def create_token(
    name: UserArgument,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="SPAN", help="How long it is good: 12h, 30d; default: for ever.")
    ] = None,
    note: Annotated[str, typer.Option(help="What it is for.")] = "",
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Create a token and print it, this once; nothing else is printed.

    \b
    Example:
      mizzen token create ann --expires 30d --note laptop
      export MIZZEN_TOKEN=$(mizzen token create ci)
    """
    made = call(data_dir, lambda plane: plane.create_token(name, expires_in=expires, note=note))
    output.outcome(made, form, str(made["token"]))


@token.command("list")
def list_tokens(name: UserArgument, data_dir: DataDir = None, form: Output = Format.TABLE) -> None:
    """List the tokens of a user by their ids, also expired and revoked ones.

    \b
    Example:
      mizzen token list ann
    """
    found = call(data_dir, lambda plane: plane.tokens(name))
    output.listing(found, ("id", "valid", "created", "expires", "revoked", "note"), f"{name} has no tokens", form)


@token.command("revoke")
def revoke_token(
    name: UserArgument,
    token_id: Annotated[
        str,
        typer.Argument(metavar="ID", help="Of the token, as 'token list' shows it.", autocompletion=completions.tokens),
    ],
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Revoke a token: from the next request on it opens nothing.

    \b
    Example:
      mizzen token revoke ann 1f2e3d4c5b6a
    """
    call(data_dir, lambda plane: plane.revoke_token(name, token_id))
    output.outcome({"user": name, "id": token_id, "revoked": True}, form, f"token {token_id} of {name} revoked")


def permit(
    *,
    name: Annotated[
        str,
        typer.Argument(
            metavar="USER", help="A user, group:NAME, or '*' for all with a token.", autocompletion=completions.users
        ),
    ],
    verbs: Annotated[
        list[str],
        typer.Argument(
            metavar="VERB…", help="read, predict, write, admin.", autocompletion=completions.verbs_and_targets
        ),
    ],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="iris, iris@prod or namespace/default.")],
    revoke: Annotated[bool, typer.Option("--revoke", help="Take these verbs back.")] = False,
    namespace: Namespace = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Let somebody do something with a model, one alias of it, or a namespace.

    \b
    Example:
      mizzen permit ann read predict iris
      mizzen permit ci write namespace/default
      mizzen permit ann predict iris --revoke
    """

    if namespace and target.startswith("namespace/") and target != f"namespace/{namespace}":
        raise errors.Invalid(f"{target} and --namespace {namespace} are two namespaces", hint="leave --namespace out")

    async def work(plane: AsyncPlane) -> list[str]:
        return await (plane.forbid if revoke else plane.permit)(name, *verbs, target=target)

    left = call(data_dir, work, namespace)
    said = f"may {'still ' if revoke else ''}{' and '.join(left)}" if left else "may do nothing by this with"
    text = f"{name} {said} {target}{_included(left, verbs) if revoke else ''}"
    output.outcome({"user": name, "verbs": left, "target": target}, form, text)


def whoami(data_dir: DataDir = None, form: Output = Format.TABLE) -> None:
    """Show who the plane takes you for, and what you may do.

    \b
    Example:
      mizzen whoami
    """
    found = call(data_dir, lambda plane: plane.whoami())
    if form is not Format.TABLE:
        output.data(found, form)
        return
    groups = f" of {', '.join(found['groups'])}" if found.get("groups") else ""
    output.say(f"{found['name']}{groups}{', admin of the plane' if found.get('admin') else ''}")
    if found.get("admin"):
        return
    for binding in found.get("bindings") or ():
        output.say(f"may {' and '.join(binding['verbs'])} {_target(binding['target'])}")
    if found.get("open"):
        output.say("may read and predict everything here: the plane is open to strangers (setting anonymous)")


def audit(
    *,
    actor: Annotated[str | None, typer.Option(help="Only what this one asked.")] = None,
    refused: Annotated[bool, typer.Option("--refused", help="Only what was refused.")] = False,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", callback=times.option, help="An ISO time, or 10m, 2h, 3d ago.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Only about objects of this kind.")] = None,
    name: Annotated[str | None, typer.Option(help="Only about objects of this name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many, the newest.")] = 50,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only of this namespace.")] = None,
    data_dir: DataDir = None,
    form: Output = Format.TABLE,
) -> None:
    """Show who asked to change what, and every refusal with its reason; newest first.

    \b
    Example:
      mizzen audit --refused --since 1d
      mizzen audit --actor ann
    """
    query = {
        "actor": actor, "allowed": False if refused else None, "since": since, "name": name, "namespace": namespace,
        "kind": _kind(kind),
    }  # fmt: skip

    async def work(plane: AsyncPlane) -> list[dict[str, Any]]:
        return [entry async for entry in plane.audit(limit=limit, **query)]

    entries = call(data_dir, work)
    keys = ("time", "actor", "verb", "kind", "namespace", "name", "allowed", "code", "request", "reason")
    if form is Format.TABLE:
        entries = [{**entry, "request": f"{entry.get('method')} {entry.get('path')}"} for entry in entries]
    output.listing(entries, keys, "nothing was asked", form)


def _kind(word: str | None) -> str | None:
    """The kind by any of its names; also of what is audited and is no resource."""
    if word is None:
        return None
    from mizzen.kinds.schema import kind_names

    other = {kind.lower(): kind for kind in ("User", "Secret", "AuditEntry", "Plane")}
    return other.get(word.lower()) or kind_names.find(word).name


def _included(left: list[str], revoked: list[str]) -> str:
    """What was taken back, and can be done all the same, because something that is left includes it."""
    from mizzen.access.policy import INCLUDED

    by = {given: [verb for verb in revoked if verb in INCLUDED[given]] for given in INCLUDED if given in left}
    return "".join(f", and {given} includes {' and '.join(verbs)}" for given, verbs in by.items() if verbs)


def _target(target: dict[str, str]) -> str:
    if not target.get("model"):
        return f"namespace/{target.get('namespace', 'default')}"
    alias = f"@{target['alias']}" if target.get("alias") else ""
    where = "" if target.get("namespace", "default") == "default" else f" in namespace {target['namespace']}"
    return f"{target['model']}{alias}{where}"
