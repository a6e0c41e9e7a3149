"""What gateways decide is what the rules say: whatever the tokens, bindings and names."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.access import credentials
from mizzen.access.access_file import AccessFile, TokenEntry
from mizzen.access.policy import ANONYMOUS, VERBS, Actor, Binding, Target, Verb
from mizzen.gateway.access import authorizer
from mizzen.gateway.access.authorizer import PLANE, PREDICT, READ, SEE, Authorizer
from tests.support.access.reference import may
from tests.support.examples import examples

NOW = 1_000.0
PEOPLE = ("ann", "bob", "anonymous", "admin")
NAMES = ("iris", "iris-1", "rose")

targets = st.builds(
    Target,
    st.sampled_from(("default", "other")),
    st.just("Model"),
    st.sampled_from(NAMES),
    models=st.frozensets(st.sampled_from(NAMES), min_size=1, max_size=2),
    alias=st.sampled_from(("", "prod", "test")),
) | st.just(PLANE)
bindings = st.builds(
    Binding,
    st.just("b"),
    st.sampled_from(("default", "other")),
    st.frozensets(st.sampled_from((*PEOPLE, "*", "group:lab", "zoe")), min_size=1, max_size=2),
    st.frozensets(st.sampled_from(VERBS), min_size=1, max_size=2),
    st.sampled_from(("", *NAMES)),
    st.just(""),
) | st.builds(
    Binding,
    st.just("b"),
    st.just("default"),
    st.frozensets(st.sampled_from(PEOPLE), min_size=1, max_size=2),
    st.frozensets(st.sampled_from(VERBS), min_size=1, max_size=2),
    st.sampled_from(NAMES),
    st.sampled_from(("prod", "test")),
)
passes = st.builds(
    TokenEntry,
    digest=st.sampled_from([credentials.digest(f"token-{number}") for number in range(6)]),
    id=st.just("t"),
    principal=st.sampled_from(PEOPLE),
    admin=st.booleans(),
    expires=st.none() | st.sampled_from((NOW - 1, NOW, NOW + 0.001, NOW + 9)),
)
given_ = st.sampled_from(
    [(), (b"Bearer",), (b"Basic x",), (b"Bearer token-1", b"Bearer token-1"), (b"token-1",), (b"Bearer token-1 x",)]
) | st.integers(0, 9).map(lambda number: (f"{'BEARER' if number % 2 else 'bearer'}  token-{number} ".encode(),))


def expected(
    access: AccessFile, given: tuple[bytes, ...], verbs: tuple[Verb, ...], target: Target, anonymous: bool
) -> int:
    """Slowly, and from the words of the requirements."""
    actor: Actor | None = ANONYMOUS
    if given:
        words = given[0].split()
        actor = None
        if len(given) == 1 and len(words) == 2 and words[0].lower() == b"bearer":
            good = [one for one in access.passes if one.digest == credentials.digest(words[1].decode())][-1:]
            good = [one for one in good if one.expires is None or one.expires > NOW]
            actor = Actor(good[0].principal, admin=good[0].admin) if good else None
    if actor is None:
        return 401
    every = [*access.grants]
    open_ = anonymous and access.anonymous
    if any(may(actor, verb, target, every, anonymous=open_) for verb in verbs):
        return 0
    return 401 if actor == ANONYMOUS else 403


asking = st.tuples(given_, st.sampled_from((PREDICT, READ, SEE)), targets)


@settings(max_examples=examples(150))
@given(
    st.booleans(),
    st.booleans(),
    st.lists(passes, max_size=6),
    st.lists(bindings, max_size=6),
    st.lists(asking, min_size=1, max_size=8),
)
def test_the_answer_is_that_of_the_slow_reference(
    settings_say: bool,
    file_says: bool,
    given_out: list[TokenEntry],
    granted: list[Binding],
    asked: list[tuple[tuple[bytes, ...], tuple[Verb, ...], Target]],
) -> None:
    access = AccessFile(anonymous=file_says, passes=tuple(given_out), grants=tuple(granted))
    ours = Authorizer(access, anonymous=settings_say, wall=lambda: NOW)
    for sent, verbs, target in (*asked, *asked):  # the second time from memory
        decision = ours.authorize(sent, verbs, target)
        assert decision.code == expected(access, sent, verbs, target, settings_say), decision
        assert decision.reason


class Clock:
    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> float:
        return self.time


IRIS = Target("default", "Model", "iris", models=frozenset({"iris"}))


def ann(expires: float | None = None) -> AccessFile:
    binding = Binding("b", "default", frozenset({"ann"}), frozenset({"predict"}), "iris")
    one = TokenEntry(digest=credentials.digest("secret"), id="t", principal="ann", expires=expires)
    return AccessFile(passes=(one,), grants=(binding,))


def test_a_token_ends_to_the_moment_however_often_it_was_good() -> None:
    clock = Clock()
    ours = Authorizer(ann(NOW + 5), anonymous=False, wall=clock)
    given = (b"Bearer secret",)
    for clock.time in (NOW, NOW + 4.999):
        decision = ours.authorize(given, PREDICT, IRIS)
        assert (decision.code, decision.until) == (0, NOW + 5)
    for clock.time in (NOW + 5, NOW + 5, NOW + 500):
        decision = ours.authorize(given, PREDICT, IRIS)
        assert (decision.code, decision.verb, decision.actor) == (401, "authenticate", "anonymous")
        assert "expired" in decision.reason
        assert "secret" not in decision.reason


def test_before_the_first_file_a_token_is_neither_good_nor_bad() -> None:
    for anonymous, code in ((True, 0), (False, 401)):
        ours = Authorizer(None, anonymous=anonymous, wall=Clock())
        assert ours.authorize((), PREDICT, IRIS).code == code
        assert ours.authorize((b"Bearer secret",), PREDICT, IRIS).code == 503


def test_memory_is_bounded_by_nothing_that_is_sent() -> None:
    ours = Authorizer(ann(), anonymous=False, wall=Clock())
    for number in range(3 * authorizer.MAX_DECISIONS):
        ours.authorize((b"Bearer secret",), PREDICT, Target("default", "Model", f"m{number}"))
        ours.authorize((b"Bearer bad-%d" % number,), PREDICT, IRIS)
    for number in range(2 * authorizer.MAX_PRINCIPALS):
        ours.authorize((b"Bearer secret" + b" " * number,), PREDICT, IRIS)
    assert len(ours._callers) <= authorizer.MAX_PRINCIPALS
    assert all(len(known.decisions) <= authorizer.MAX_DECISIONS for known in ours._callers.values())
    assert ours.authorize((b"Bearer secret",), PREDICT, IRIS).code == 0


def test_nor_by_names_that_are_long() -> None:
    ours = Authorizer(ann(), anonymous=False, wall=Clock())
    long = "x" * (authorizer.MAX_CACHED_NAME + 1)
    for target in (
        Target("default", "Model", long),
        Target(long, "Model", "m"),
        Target("default", "Model", "m", alias=long),
    ):
        assert ours.authorize((b"Bearer secret",), PREDICT, target).code == 403
    assert not ours._callers[(b"Bearer secret",)].decisions


def test_a_list_is_shown_to_whoever_may_see_something_of_it() -> None:
    ours = Authorizer(ann(), anonymous=False, wall=Clock())
    assert ours.authorize_any((b"Bearer secret",), SEE, "default").code == 0
    assert ours.authorize_any((b"Bearer secret",), SEE, "other").code == 403
    assert ours.authorize_any((b"Bearer other",), SEE, "default").code == 401
    assert ours.authorize_any((), SEE, "default").code == 401
