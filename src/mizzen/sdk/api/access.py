"""Access control calls: users and their tokens, limits, permissions, secrets, and the audit log."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from mizzen import errors
from mizzen.sdk.api.resources import ResourceCalls
from mizzen.sdk.api.session import escape, without_none

VERBS: Final = ("read", "predict", "write", "admin")
_API_VERSION: Final = "mizzen.dev/v1alpha1"
_TRIES: Final = 5

Objects = list[dict[str, Any]]


class AccessCalls(ResourceCalls):
    async def whoami(self) -> dict[str, Any]:
        """Return the caller's identity and permissions, as the plane sees them."""
        return await self.request("GET", "/whoami")

    async def users(self) -> list[dict[str, Any]]:
        """List all users."""
        return _items_of(await self.request("GET", "/user"))

    async def add_user(self, name: str) -> dict[str, Any]:
        """Raises AlreadyExists."""
        return await self.request("POST", "/user", body={"name": name})

    async def delete_user(self, name: str) -> dict[str, Any]:
        """Delete a user with all their tokens and permissions; `bindings` in the response lists those permissions."""
        return await self.request("DELETE", f"/user/{escape(name)}")

    async def create_token(self, user: str, *, expires_in: str | None = None, note: str = "") -> dict[str, Any]:
        """Return {"token", "id", …}, the only time the token is shown. `expires_in`: its lifetime, such as `30d`."""
        body = without_none(expiresIn=expires_in, note=note or None)
        return await self.request("POST", f"/user/{escape(user)}/token", body=body)

    async def tokens(self, user: str) -> list[dict[str, Any]]:
        """List a user's tokens, including expired and revoked ones; never the token itself."""
        return _items_of(await self.request("GET", f"/user/{escape(user)}/token"))

    async def revoke_token(self, user: str, token_id: str) -> None:
        """Revoke a token: the next request with it is rejected."""
        await self.request("DELETE", f"/user/{escape(user)}/token/{escape(token_id)}")

    async def limits(self) -> Objects:
        """List all limits that are set, with their usage."""
        return _items_of(await self.request("GET", "/limit"))

    async def limit(
        self,
        subject: str,
        *,
        per_second: float | None = None,
        burst: int | None = None,
        per_day: int | None = None,
        per_month: int | None = None,
    ) -> dict[str, Any]:
        """Set the prediction limits of a subject, replacing earlier ones. The subject is a user, `group:<name>` (each
        member), `*` (each user with a token), or `anonymous` (all callers without a token together). None means
        unlimited."""
        body = without_none(perSecond=per_second, burst=burst, perDay=per_day, perMonth=per_month)
        return await self.request("PUT", f"/limit/{escape(subject)}", body=body)

    async def limit_of(self, subject: str) -> dict[str, Any]:
        """Return the limit of a subject, with its usage. Raises NotFound."""
        return await self.request("GET", f"/limit/{escape(subject)}")

    async def unlimit(self, subject: str) -> None:
        """Remove a limit."""
        await self.request("DELETE", f"/limit/{escape(subject)}")

    async def permit(self, principal: str, *verbs: str, target: str) -> list[str]:
        """Let a principal read, predict, write or admin `iris`, `iris@prod` or `namespace/default`. Returns its verbs
        there."""
        given = await self._bind(principal, target, lambda had: {*had, *verbs}, verbs)
        await self._warn_of_alias(target)
        return given

    async def forbid(self, principal: str, *verbs: str, target: str) -> list[str]:
        """Revoke verbs that `permit` granted. Returns the remaining verbs; warns if none of them was granted."""
        had: set[str] = set()

        def without(given: set[str]) -> set[str]:
            had.update(given)
            return given - set(verbs)

        left = await self._bind(principal, target, without, verbs)
        if had.isdisjoint(verbs):
            self.warn(f"nothing was revoked: {principal} has no direct grant of {' or '.join(verbs)} on {target}")
        return left

    async def secrets(self, *, namespace: str | None = None) -> Objects:
        """List names and keys; values are never returned."""
        return _items_of(await self.request("GET", "/secret", params=self.within(namespace)))

    async def set_secret(
        self, name: str, data: Mapping[str, str], *, replace: bool = False, namespace: str | None = None
    ) -> dict[str, Any]:
        """Add or change these values; with `replace`, delete all others."""
        method, path = "PUT" if replace else "PATCH", f"/secret/{escape(name)}"
        return await self.request(method, path, body={"data": dict(data)}, params=self.within(namespace))

    async def delete_secret(self, name: str, *, namespace: str | None = None) -> None:
        await self.request("DELETE", f"/secret/{escape(name)}", params=self.within(namespace))

    async def audit(self, *, limit: int | None = None, **query: Any) -> AsyncIterator[dict[str, Any]]:
        """Yield entries, newest first. `query` may hold actor, namespace, kind, name, allowed, since and until."""
        count = 0
        async for page in self.pages("/audit", {**query, "limit": limit}):
            for entry in page["items"]:
                if limit is not None and count >= limit:
                    return
                count += 1
                yield entry

    async def _bind(self, principal: str, target: str, change: Any, verbs: Sequence[str]) -> list[str]:
        if not verbs:
            raise errors.Invalid("no verb was given", hint=f"verbs are {', '.join(VERBS)}")
        unknown = [verb for verb in verbs if verb not in VERBS]
        if unknown:
            raise errors.Invalid(f"'{unknown[0]}' is not a valid verb", hint=f"verbs are {', '.join(VERBS)}")
        namespace, about = binding_target(target, self.namespace)
        name = binding_name(principal, namespace, about)
        for left in reversed(range(_TRIES)):
            live = await self._binding(name, namespace)
            had = set(live["spec"]["verbs"]) if live else set()
            wanted = [verb for verb in VERBS if verb in change(had)]
            if set(wanted) == had:
                return wanted
            try:
                await self._write_binding(live, _build_manifest(name, namespace, principal, about, wanted))
            except (errors.Conflict, errors.AlreadyExists):
                if not left:
                    raise
                continue
            return wanted
        raise AssertionError("the last try returns or raises")

    async def _warn_of_alias(self, target: str) -> None:
        """Warn about an alias that does not exist: the plane checks other names but not aliases."""
        namespace, about = binding_target(target, self.namespace)
        if "alias" not in about:
            return
        try:
            model = await self.get("models", about["model"], namespace=namespace)
        except (errors.NotFound, errors.Forbidden):
            return
        aliases = model["spec"].get("aliases") or {}
        if about["alias"] not in aliases:
            known = f"its aliases are {', '.join(sorted(aliases))}" if aliases else "it has none"
            self.warn(f"model '{about['model']}' has no alias '{about['alias']}' yet; {known}")

    async def _binding(self, name: str, namespace: str) -> dict[str, Any] | None:
        try:
            return await self.get("rolebindings", name, namespace=namespace)
        except errors.NotFound:
            return None

    async def _write_binding(self, live: Mapping[str, Any] | None, manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        if live is None:
            await self.create(manifest)
        elif not manifest["spec"]["verbs"]:
            await self.delete("rolebindings", metadata["name"], namespace=metadata["namespace"])
        else:
            metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
            await self.replace(manifest)


def binding_target(target: str, namespace: str) -> tuple[str, dict[str, str]]:
    """Return the target's namespace and its form in a RoleBinding there. Raises Invalid if it is not a valid target."""
    if target.startswith("namespace/"):
        space = target.removeprefix("namespace/")
        if not space:
            raise errors.Invalid(f"'{target}' does not name a namespace", hint="for example namespace/default")
        return space, {"namespace": space}
    found = re.fullmatch(r"([^@:/]+)(?:@([^@:/]+))?", target)
    if found is None:
        raise errors.Invalid(f"'{target}' is not a valid target", hint="expected iris, iris@prod or namespace/default")
    return namespace, {"model": found[1], **({"alias": found[2]} if found[2] else {})}


def binding_name(principal: str, namespace: str, about: Mapping[str, str]) -> str:
    """Return the same name for the same principal and target, for every caller. The hash separates names that look
    alike."""
    words = "-".join((principal, *about.values()))
    readable = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:50].rstrip("-")
    exact = "\0".join((principal, namespace, *(f"{key}={about[key]}" for key in sorted(about))))
    return f"{readable or 'permit'}-{hashlib.sha256(exact.encode()).hexdigest()[:8]}"


def _build_manifest(
    name: str, namespace: str, principal: str, about: Mapping[str, str], verbs: list[str]
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    spec = {"subjects": [principal], "verbs": verbs, "target": dict(about)}
    return {"apiVersion": _API_VERSION, "kind": "RoleBinding", "metadata": metadata, "spec": spec}


def _items_of(answer: Mapping[str, Any]) -> Objects:
    items: Objects = answer["items"]
    return items
