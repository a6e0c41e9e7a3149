"""An object store is configured by its credentials and the given variables, never by others of the process."""

from __future__ import annotations

import os

import pytest

from mizzen.blobs.object_store import open_object_store
from mizzen.blobs.object_store_credentials import Credentials, s3_options
from mizzen.blobs.open_from_env import credentials_of, variables

OWN = Credentials("http://store:9000", "eu-west-1", "own-id", "own-key")
FOREIGN = {
    "AWS_ACCESS_KEY_ID": "theirs", "AWS_SECRET_ACCESS_KEY": "theirs", "AWS_SESSION_TOKEN": "theirs",
    "AWS_ENDPOINT_URL": "http://theirs", "AWS_ENDPOINT_URL_S3": "http://theirs", "AWS_REGION": "theirs",
    "AWS_SKIP_SIGNATURE": "true", "AWS_REQUEST_PAYER": "true", "AWS_PROFILE": "theirs",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "/theirs", "AWS_ROLE_ARN": "theirs",
}  # fmt: skip


@pytest.fixture(autouse=True)
def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    for name, value in FOREIGN.items():
        monkeypatch.setenv(name, value)


def test_credentials_replace_all_variables_of_the_process() -> None:
    options = s3_options(OWN, {}, {})
    assert options["credential_provider"]() == {
        "access_key_id": "own-id", "secret_access_key": "own-key", "token": None, "expires_at": None,
    }  # fmt: skip
    assert options["config"] == {
        "aws_region": "eu-west-1", "aws_endpoint_url_s3": "http://store:9000", "aws_skip_signature": "false",
        "aws_request_payer": "false",
    }  # fmt: skip


def test_given_variables_replace_those_of_the_process() -> None:
    given = {
        "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_SESSION_TOKEN": "token",
        "AWS_DEFAULT_REGION": "eu-west-2", "AWS_CHECKSUM_ALGORITHM": "sha256", "AWS_SKIP_SIGNATURE": "false",
    }  # fmt: skip
    options = s3_options(Credentials.from_env(given), given, {})
    assert options["credential_provider"]()["token"] == "token"
    assert options["config"] == {
        "aws_region": "eu-west-2", "aws_endpoint_url_s3": "https://s3.eu-west-2.amazonaws.com",
        "aws_skip_signature": "false", "aws_request_payer": "false", "aws_checksum_algorithm": "sha256",
    }  # fmt: skip


def test_anonymous_requests_stay_anonymous() -> None:
    options = s3_options(Credentials(), {}, {"aws_skip_signature": True})
    assert "credential_provider" not in options
    assert options["config"]["aws_skip_signature"] is True
    assert options["config"]["aws_region"] == "us-east-1"


def test_the_identity_of_the_machine_is_used_only_if_no_other_is_in_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ValueError, match=r"unset AWS_ACCESS_KEY_ID, AWS_ROLE_ARN, .*AWS_WEB_IDENTITY_TOKEN_FILE"):
        s3_options(Credentials(), {}, {})
    for name in FOREIGN:
        monkeypatch.delenv(name)
    role = {"AWS_ROLE_ARN": "role", "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}
    options = s3_options(Credentials(), role, {})
    assert options == {
        "config": {"aws_region": "us-east-1", "aws_role_arn": "role", "aws_web_identity_token_file": "/token"}
    }


def test_a_variable_that_no_option_can_replace_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SSE_KMS_KEY_ID", "theirs")
    with pytest.raises(ValueError, match="unset AWS_SSE_KMS_KEY_ID"):
        open_object_store("s3://bucket/x", OWN, {})


def test_without_given_variables_those_of_the_process_count(monkeypatch: pytest.MonkeyPatch) -> None:
    options = s3_options(Credentials.from_env(os.environ), os.environ, {})
    assert options["credential_provider"]()["token"] == "theirs"
    assert options["config"]["aws_endpoint_url_s3"] == "http://theirs"
    assert options["config"]["aws_skip_signature"] == "true"


@pytest.mark.parametrize(
    ("url", "name"), [("az://container/x", "AZURE_STORAGE_ACCOUNT_KEY"), ("gs://bucket/x", "GOOGLE_BASE_URL")]
)
def test_other_stores_refuse_variables_of_the_process(monkeypatch: pytest.MonkeyPatch, url: str, name: str) -> None:
    monkeypatch.setenv(name, "dGhlaXJz")
    with pytest.raises(ValueError, match=f"unset {name}"):
        open_object_store(url, None, {"GOOGLE_SKIP_SIGNATURE": "true"})


def test_other_stores_take_the_given_variables() -> None:
    given = {"AZURE_STORAGE_ACCOUNT_NAME": "own", "AZURE_STORAGE_ACCOUNT_KEY": "b3du", "AZURE_UNKNOWN": "x"}
    assert open_object_store("az://container/x", None, given).config["account_name"] == "own"
    assert "AZURE_STORAGE_ACCOUNT_NAME" not in os.environ


def test_opening_a_store_leaves_the_environment_alone() -> None:
    before = dict(os.environ)
    store = open_object_store("s3://bucket/a%20folder/x/", OWN, {})
    assert (store.config["bucket"], store.prefix, dict(os.environ)) == ("bucket", "a folder/x", before)


def test_credentials_pass_through_variables() -> None:
    passed = variables("s3://bucket", Credentials(region="eu-west-1"), {**FOREIGN, "PATH": "/bin"})
    assert passed["MIZZEN_BLOB_STORE_REGION"] == "eu-west-1"
    assert "MIZZEN_BLOB_STORE_AROUND_PATH" not in passed
    assert credentials_of(passed) == Credentials("http://theirs", "eu-west-1", "theirs", "theirs")
