"""Versions, aliases, references, durations, amounts, URLs: the words of which specs are made."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from mizzen.kinds.text import durations, quantities, references, urls, versions
from mizzen.kinds.text.references import ModelReference

labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
version_texts = st.from_regex(r"[a-z0-9]([-.a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize("text", ["7", "v7", "007", "v007"])
def test_numbers_of_versions_are_the_same_however_written(text: str) -> None:
    assert versions.normal_version(text) == "7"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "version numbers start at 1"),
        ("v000", "version numbers start at 1"),
        ("latest", "'latest' is reserved and cannot name a version"),
        ("v" + 19 * "9", "a version number may have at most 18 digits"),
        ("A", "'A' is not a valid version; expected a number, or lower-case letters, digits, '-' and '.'"),
        ("\u0667", "'\u0667' is not a valid version; expected a number, or lower-case letters, digits, '-' and '.'"),
    ],
)
def test_what_is_no_version_says_so(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        versions.normal_version(text)


def test_a_number_that_is_given_is_shorter_than_those_that_are_counted() -> None:
    assert versions.check_new_version(f"v{'9' * 15}") == "9" * 15
    assert versions.check_new_version("a" * 20) == "a" * 20
    assert versions.normal_version("9" * 18) == "9" * 18
    with pytest.raises(ValueError, match="at most 15 digits"):
        versions.check_new_version("9" * 16)


@given(version_texts)
def test_a_normal_version_is_normal(text: str) -> None:
    try:
        normal = versions.normal_version(text)
    except ValueError:
        return
    assert versions.normal_version(normal) == normal
    assert not re.fullmatch(r"v[0-9]+|0[0-9]*", normal)


@pytest.mark.parametrize("alias", ["prod", "a-b", "v", "v1a", "1a"])
def test_aliases(alias: str) -> None:
    assert versions.check_alias(alias) == alias


@pytest.mark.parametrize(
    ("alias", "message"),
    [
        ("3", "'3' is a version, not an alias"),
        ("v3", "'v3' is a version, not an alias"),
        ("current", "'current' is reserved and cannot name an alias"),
        ("1.0", "'1.0' is not a valid alias"),
        ("", "'' is not a valid alias"),
    ],
)
def test_what_cannot_be_an_alias(alias: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        versions.check_alias(alias)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("iris", ModelReference("iris")),
        ("iris:v3", ModelReference("iris", version="3")),
        ("iris:1.0.2", ModelReference("iris", version="1.0.2")),
        ("iris@prod", ModelReference("iris", alias="prod")),
        ("iris-v3", ModelReference("iris-v3")),
    ],
)
def test_references(text: str, reference: ModelReference) -> None:
    assert references.parse(text) == reference


@pytest.mark.parametrize(
    "text",
    ["", ":3", "iris:", "iris@", "iris:3@prod", "iris@prod:3", "iris@3", "iris:latest", "Iris", "a/b", "a\n", "a.b"],
)
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        references.parse(text)


@given(labels, version_texts, st.sampled_from([":", "@"]))
def test_references_survive_being_written(name: str, rest: str, mark: str) -> None:
    try:
        reference = references.parse(f"{name}{mark}{rest}")
    except ValueError:
        return
    assert references.parse(str(reference)) == reference
    assert reference.name == name


def test_second_names_name_no_alias() -> None:
    assert references.parse_unaliased("iris:3") == ModelReference("iris", version="3")
    with pytest.raises(ValueError, match="refers to an alias"):
        references.parse_unaliased("iris@prod")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("mymodel-v2", ("mymodel", "2")),
        ("my-model-v007", ("my-model", "7")),
        ("a-v1-v2", ("a-v1", "2")),
        ("mymodel", None),
        ("mymodel-2", None),
        ("mymodel-v0", None),
        ("mymodel-v", None),
        ("-v2", None),
        ("mymodel-v2b", None),
        ("My-v2", None),
    ],
)
def test_a_version_at_the_end_of_a_name(name: str, split: tuple[str, str] | None) -> None:
    assert references.split_version_suffix(name) == split


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("5m", 300), ("1h30m", 5400), ("2d", 172800), ("250ms", 0.25), ("1.5h", 5400), ("0s", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert durations.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "5 s", "5S", "5min", "1h-5m", "1e3s", "½h", 20 * "9" + "s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(
        ValueError, match=re.escape("is not a valid duration; expected a text such as 30s, 5m, 1h30m or 2d")
    ):
        durations.seconds(text)


def test_a_field_of_a_duration_is_above_zero() -> None:
    field = TypeAdapter(durations.Duration)
    assert field.validate_python("1h") == "1h"
    with pytest.raises(ValueError, match="must be above 0"):
        field.validate_python("0m")


@given(st.integers(0, 10**6), st.sampled_from(["ms", "s", "m", "h", "d"]), st.integers(0, 10**6))
def test_durations_add_up(one: int, unit: str, other: int) -> None:
    both = durations.seconds(f"{one}{unit}{other}s")
    assert both == pytest.approx(durations.seconds(f"{one}{unit}") + other)


@pytest.mark.parametrize(
    ("text", "amount"), [("2", 2), ("0.5", 0.5), ("500m", 0.5), ("1Gi", 2**30), ("512Mi", 2**29), ("4G", 4e9)]
)
def test_amounts(text: str, amount: float) -> None:
    assert quantities.amount(text) == amount


@pytest.mark.parametrize("text", ["", "-1", "1 Gi", "1GB", "Gi", "1e3", "nan"])
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(
        ValueError, match=re.escape("is not a valid quantity; expected a text such as 2, 0.5, 500m, 512Mi or 4Gi")
    ):
        quantities.amount(text)


@pytest.mark.parametrize(
    "url",
    ["http://host/a.tar.gz", "https://host:8443/x?y=1", "s3://bucket/key", "file:///srv/a.zip", "http://me@host/a"],
)
def test_urls_of_files(url: str) -> None:
    assert TypeAdapter(urls.FileUrl).validate_python(url) == url


@pytest.mark.parametrize(
    "url",
    ["", "host/a", "ftp://host/a", "http://", "file:", "http://h:99999/", "http://h/a b", "http:///a", "http://[x/"],
)
def test_what_is_no_url_of_a_file(url: str) -> None:
    with pytest.raises(ValueError, match=r"is not a valid URL; expected http:// or https:// or s3:// or file://"):
        TypeAdapter(urls.FileUrl).validate_python(url)


@pytest.mark.parametrize("url", ["https://me:pa55word@host/a", "https://me:pa55/word@host/a"])
def test_a_password_is_refused_and_not_repeated(url: str) -> None:
    for field in (urls.FileUrl, urls.WebUrl, urls.Repository):
        with pytest.raises(ValueError, match=r"password|is not a valid URL") as caught:
            TypeAdapter(field).validate_python(url, strict=True)
        assert "pa55" not in caught.value.errors()[0]["msg"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("repo", ["https://host/a.git", "ssh://git@host/a", "git@host:team/a.git", "/srv/a.git"])
def test_repositories(repo: str) -> None:
    assert TypeAdapter(urls.Repository).validate_python(repo) == repo


@pytest.mark.parametrize("repo", ["", "--upload-pack=x", "ext::sh -c x", "a b", "relative/path", "ftp://host/a"])
def test_what_is_no_repository(repo: str) -> None:
    with pytest.raises(ValueError, match=r"is not a (git repository|valid URL)"):
        TypeAdapter(urls.Repository).validate_python(repo)
