"""Which pages may send requests to which Host: those of exactly the same scheme, host and port."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.access import origins

HTTP, HTTPS = ("http",), ("https",)


@pytest.mark.parametrize(
    ("origin", "host", "schemes"),
    [
        ("http://127.0.0.1:8470", "127.0.0.1:8470", HTTP),
        ("http://LocalHost:8470", "localhost:8470", HTTP),
        ("HTTP://localhost:8470", "LOCALHOST:8470", HTTP),
        ("http://localhost", "localhost:80", HTTP),
        ("http://localhost:80", "localhost", HTTP),
        ("http://localhost", "localhost:", HTTP),
        ("https://models.example", "models.example:443", HTTPS),
        ("https://models.example:443", "models.example", HTTPS),
        ("http://[::1]:8470", "[::1]:8470", HTTP),
        ("https://models.example", "models.example", ("http", "https")),
    ],
)
def test_the_same_origin(origin: str, host: str, schemes: tuple[str, ...]) -> None:
    assert origins.is_own(origin, host, schemes)


@pytest.mark.parametrize(
    ("origin", "host", "schemes"),
    [
        ("http://127.0.0.1:8471", "127.0.0.1:8470", HTTP),
        ("http://127.0.0.1", "127.0.0.1:8470", HTTP),
        ("http://127.0.0.1:8470", "127.0.0.1", HTTP),
        ("http://localhost:8470", "127.0.0.1:8470", HTTP),
        ("http://[::1]:8471", "[::1]:8470", HTTP),
        ("http://::1:8470", "[::1]:8470", HTTP),
        ("https://localhost:8470", "localhost:8470", HTTP),
        ("http://localhost:8470", "localhost:8470", HTTPS),
        ("https://localhost", "localhost:80", ("http", "https")),
        ("null", "localhost", HTTP),
        ("", "localhost", HTTP),
        ("http://localhost.:8470", "localhost:8470", HTTP),
        ("http://user@localhost:8470", "localhost:8470", HTTP),
        ("http://localhost:8470@evil.example", "localhost:8470", HTTP),
        ("http://evil.example#localhost:8470", "localhost:8470", HTTP),
        ("http://localhost:8470/", "localhost:8470", HTTP),
        ("http://localhost:8470, http://localhost:8470", "localhost:8470", HTTP),
        ("http://localhost:", "localhost", HTTP),
        ("http://localhost:\u0668\u0668", "localhost:88", HTTP),
        ("ftp://localhost", "localhost", HTTP),
        ("http://localhost", "localhost,localhost", HTTP),
    ],
)
def test_another_origin(origin: str, host: str, schemes: tuple[str, ...]) -> None:
    assert not origins.is_own(origin, host, schemes)


@given(st.integers(0, 65535), st.integers(0, 65535))
def test_a_port_is_part_of_an_origin(first: int, second: int) -> None:
    assert origins.is_own(f"http://localhost:{first}", f"localhost:{second}", HTTP) == (first == second)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8470", "[::1]", "[::1]:8470", "localhost:"])
def test_loopback(host: str) -> None:
    assert origins.is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["", "localhost.", "127.0.0.2", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "::1", "localhost:x",
     "localhost,localhost", "localhost:123456", "user@localhost"],
)  # fmt: skip
def test_not_loopback(host: str) -> None:
    assert not origins.is_loopback(host)
