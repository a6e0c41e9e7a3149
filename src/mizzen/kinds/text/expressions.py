"""The condition of a step: `always`, or an expression over the results of earlier steps and over inputs.

or      = and {"||" and}
and     = not {"&&" not}
not     = "!" not | value [("==" | "!=") value]
value   = "(" or ")" | path | text | number | true | false
path    = status.<step>.<field> | status["<step>"].<field> | inputs.<name>{.<name>}
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mizzen.kinds.schema.findings import suggestion

ALWAYS = "always"
STEP_FIELDS = ("phase", "succeeded", "failed", "skipped", "timeout", "failedAfterRetries", "terminate")
LONGEST = 2000
DEEPEST = 40

_TOKEN = re.compile(
    r"""\s*(?: (?P<operator>\|\||&&|==|!=|[!()\[\].]) | (?P<text>"(?:[^"\\]|\\.)*"|'[^'\\]*')
             | (?P<word>[A-Za-z0-9_][A-Za-z0-9_-]*) )""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class ConstantValue:
    value: str | int | bool


@dataclass(frozen=True, slots=True)
class FieldPath:
    """`("status", step, field)` or `("inputs", name, …)`."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Not:
    of: Expression


@dataclass(frozen=True, slots=True)
class EqualityTest:
    left: Expression
    equal: bool
    right: Expression


@dataclass(frozen=True, slots=True)
class Combination:
    """A conjunction (&&) or a disjunction (||)."""

    by: Literal["&&", "||"]
    of: tuple[Expression, ...]


Expression: TypeAlias = ConstantValue | FieldPath | Not | EqualityTest | Combination


def parse(text: str) -> Expression:
    """Raises ValueError with a message for the author. `always` is not an expression: callers test for it first."""
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text)} characters; at most {LONGEST} are allowed")
    return _ExpressionParser(tuple(_tokens(text))).whole()


def problem(text: str, steps: Collection[str]) -> str | None:
    """Why a step with this condition would always be skipped; None if the condition can be evaluated."""
    if text.strip() == ALWAYS:
        return None
    try:
        expression = parse(text)
    except ValueError as error:
        return str(error)
    unknown = (path.parts[1] for path in _paths(expression) if path.parts[0] == "status" and path.parts[1] not in steps)
    step = next(unknown, None)
    return f"no step '{step}'; {suggestion(step, steps, 'steps')}" if step is not None else None


def _paths(expression: Expression) -> Iterator[FieldPath]:
    match expression:
        case FieldPath():
            yield expression
        case Not(inner):
            yield from _paths(inner)
        case EqualityTest(left, _, right):
            yield from _paths(left)
            yield from _paths(right)
        case Combination(_, parts):
            for part in parts:
                yield from _paths(part)


def _tokens(text: str) -> Iterator[str]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"cannot read {text[at : at + 20].strip()!r}")
        yield found[found.lastgroup or 0]
        at = found.end()


class _ExpressionParser:
    def __init__(self, tokens: tuple[str, ...]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def whole(self) -> Expression:
        expression = self._operands("||")
        if self._at < len(self._tokens):
            raise ValueError(f"did not expect {self._tokens[self._at]!r}")
        return expression

    def _operands(self, by: Literal["&&", "||"]) -> Expression:
        parts = [self._operands("&&") if by == "||" else self._unary()]
        while self._take(by):
            parts.append(self._operands("&&") if by == "||" else self._unary())
        return parts[0] if len(parts) == 1 else Combination(by, tuple(parts))

    def _unary(self) -> Expression:
        negations = 0
        while self._take("!"):
            negations += 1
        left = self._value()
        for operator in ("==", "!="):
            if not negations and self._take(operator):
                return EqualityTest(left, operator == "==", self._value())
        return Not(left) if negations % 2 else left

    def _value(self) -> Expression:
        token = self._next()
        if token == "(":  # noqa: S105
            return self._within_brackets()
        if token[0] in "\"'":
            return ConstantValue(_unquote(token))
        if token in ("true", "false"):
            return ConstantValue(token == "true")  # noqa: S105
        if _NUMBER.fullmatch(token):
            return ConstantValue(int(token))
        return self._path(token)

    def _within_brackets(self) -> Expression:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"brackets are nested more than {DEEPEST} deep")
        inner = self._operands("||")
        self._expect(")")
        self._depth -= 1
        return inner

    def _path(self, root: str) -> FieldPath:
        if root not in ("status", "inputs"):
            raise ValueError(f"{root!r} is neither status.<step>.<field> nor inputs.<name>")
        parts = [root]
        while True:
            if self._take("."):
                parts.append(self._word())
            elif self._take("["):
                parts.append(_unquote(self._next()))
                self._expect("]")
            else:
                break
        return _check_path(tuple(parts))

    def _word(self) -> str:
        token = self._next()
        if not re.match(r"\w", token):
            raise ValueError(f"expected a name after '.', not {token!r}")
        return token

    def _take(self, token: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == token:
            self._at += 1
            return True
        return False

    def _next(self) -> str:
        if self._at == len(self._tokens):
            raise ValueError("it ends unexpectedly")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise ValueError(f"'{token}' is missing")


def _check_path(parts: tuple[str, ...]) -> FieldPath:
    if parts[0] == "inputs" and len(parts) > 1:
        return FieldPath(parts)
    if parts[0] == "status" and len(parts) == 3:
        if parts[2] in STEP_FIELDS:
            return FieldPath(parts)
        raise ValueError(f"a step has no '{parts[2]}'; {suggestion(parts[2], STEP_FIELDS)}")
    raise ValueError(f"'{'.'.join(parts)}' is neither status.<step>.<field> nor inputs.<name>")


def _unquote(token: str) -> str:
    if token[:1] == "'":
        return token[1:-1]
    if token[:1] != '"':
        raise ValueError(f"{token} is not a quoted text")
    try:
        return str(json.loads(token))
    except ValueError:
        raise ValueError(f"{token} is not a quoted text") from None
