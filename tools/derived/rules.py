"""What the control API asks of texts, as schemas: from the patterns that the server itself asks.

Patterns are anchored, and use only what every reader of such documents knows. Some cannot look ahead, so a rule with
exceptions is a pattern, and another that it must `not` be. Of keys OpenAPI 3.0 cannot say anything: `x-propertyNames`
does, in the words that later releases have for it.
"""

from __future__ import annotations

import re
from typing import Any

from mizzen import frameworks
from mizzen.blobs.fs.content import DIGEST as _DIGEST
from mizzen.kinds.schema import metadata
from mizzen.kinds.schema.resource import NAME as _NAME
from mizzen.kinds.schema.resource import VERSION as _VERSION
from mizzen.kinds.text import durations, selectors
from mizzen.kinds.text.versions import MOST_DIGITS, MOST_NEW_DIGITS, RESERVED_VERSIONS
from mizzen.server.admin import rate_limits, secrets
from mizzen.server.auth import tokens

Schema = dict[str, Any]


def like(pattern: str | re.Pattern[str], description: str = "", *, never: str = "") -> Schema:
    """A text that is all of the pattern, and not all of `never`."""
    result: Schema = {"type": "string", "pattern": _whole(pattern)}
    if never:
        result["not"] = {"pattern": _whole(never)}
    return {**result, "description": description} if description else result


def _whole(pattern: str | re.Pattern[str]) -> str:
    text = pattern if isinstance(pattern, str) else pattern.pattern
    return f"^(?:{text})$"


_RESERVED = "|".join(sorted(RESERVED_VERSIONS))
_ZERO = "v?0+"
_PART = r"[^/\\\x00-\x1f\x7f]+"

NAME = like(_NAME)
VERSION = like(_VERSION, never=f"{_RESERVED}|{_ZERO}|v?0*[1-9][0-9]{{{MOST_DIGITS},}}")
VERSION_OR_NEXT = like(
    _VERSION, never=f"{'|'.join(sorted(RESERVED_VERSIONS - {'auto'}))}|{_ZERO}|v?0*[1-9][0-9]{{{MOST_NEW_DIGITS},}}"
)
"""`auto` is the next number, where one is added."""
LARGEST_VERSION = 10**MOST_DIGITS - 1
ALIAS = like(_NAME, never=f"{_RESERVED}|v?[0-9]+")
USER = {**like(tokens.PRINCIPAL, never="|".join(sorted(tokens.RESERVED))), "maxLength": tokens.LONGEST_NAME}
SUBJECT = like(rate_limits.SUBJECT)
TOKEN = like("[0-9a-f]{12}")
DIGEST = like(_DIGEST)
FILE_PATH = like(rf"{_PART}(?:/{_PART})*", never=r"[A-Za-z]:.*|(?:.*/)?\.\.?(?:/.*)?")
FRAMEWORK = like(frameworks.WORD)
DURATION = like(durations.PATTERN)
TIME: Schema = {"type": "string", "format": "date-time"}
SELECTOR = {**like(selectors.PATTERN), "maxLength": selectors.LONGEST}
LABELS: Schema = {
    "type": "object", "additionalProperties": like(metadata.LABEL_VALUE),
    "maxProperties": metadata.MOST_LABELS.entries, "x-propertyNames": {"pattern": _whole(metadata.KEY)},
}  # fmt: skip
ANNOTATIONS: Schema = {
    "type": "object", "additionalProperties": {"type": "string"}, "maxProperties": metadata.MOST_ANNOTATIONS.entries,
}  # fmt: skip
SECRET: Schema = {
    "type": "object", "additionalProperties": {**like(r"[^\x00]*"), "maxLength": secrets.LONGEST_VALUE},
    "minProperties": 1, "maxProperties": secrets.MOST_KEYS, "x-propertyNames": {"pattern": _whole(secrets.KEY)},
}  # fmt: skip
"""Of its values, the length is asked in bytes."""
