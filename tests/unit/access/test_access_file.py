"""access.json: what is written is read, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.access import access_file
from mizzen.access.access_file import AccessFile, Issuer, TokenEntry
from mizzen.access.policy import VERBS, Binding

words = st.text(max_size=8)
bindings = st.builds(
    Binding,
    words,
    words,
    st.frozensets(words, max_size=3),
    st.frozensets(st.sampled_from(VERBS), max_size=4),
    words,
    words,
)
accesses = st.builds(
    AccessFile,
    serial=st.integers(0, 2**40),
    anonymous=st.booleans(),
    passes=st.lists(
        st.builds(
            TokenEntry,
            digest=words,
            id=words,
            principal=words,
            admin=st.booleans(),
            expires=st.none() | st.floats(0, 1e11),
        ),
        max_size=3,
    ).map(tuple),
    grants=st.lists(bindings, max_size=3).map(tuple),
    issuer=st.none()
    | st.builds(
        Issuer, issuer=words, audience=words, user_claim=words, groups_claim=words, admin_group=words,
        keys=st.lists(st.dictionaries(words, words, max_size=3), max_size=2).map(tuple),
    ),
)  # fmt: skip


@given(accesses)
def test_it_is_read_as_it_was_written(access: AccessFile) -> None:
    assert access_file.decode(access_file.encode(access)) == access


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"passes": 5}', b'{"grants": [{"name": "x"}]}', b'{"format": 2}']
)
def test_what_is_something_else_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        access_file.decode(content)


def test_nothing_of_a_token_shows_itself() -> None:
    one = TokenEntry(digest="d" * 64, id="t1", principal="ann")
    assert "ddd" not in repr(AccessFile(passes=(one,)))
    assert json.loads(access_file.encode(AccessFile(passes=(one,)))) == {
        "passes": [{"digest": "d" * 64, "id": "t1", "principal": "ann"}]
    }
