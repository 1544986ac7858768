"""Credentials of the command from the environment."""

from __future__ import annotations

from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from busbar_client import Client, Unreachable
from remoting.cli.api import (
    Api,
    ApiError,
    ApplianceUnreachable,
    Context,
    fetch_ca,
    load_context,
    save_context,
)
from remoting.cli.doctor_command import findings
from remoting.cli.token_commands import logout
from tests.unit.test_every_command import DEAD_PORT, certificate
from tests.unit.tls_server import tls_server


@pytest.fixture(autouse=True)
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    for name in ("BUSBAR_TOKEN", "BUSBAR_URL", "BUSBAR_CA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BUSBAR_CONTEXT", str(tmp_path / "context.json"))
    context = Context("https://stored:8443", "stored", "pem")
    save_context(context)
    return context


def test_environment_comes_before_the_stored_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: Context
) -> None:
    assert load_context() == stored
    pem = certificate().decode()
    (tmp_path / "ca.pem").write_text(pem)
    monkeypatch.setenv("BUSBAR_TOKEN", "bb_1.x")
    monkeypatch.setenv("BUSBAR_URL", "https://other:8443/")
    monkeypatch.setenv("BUSBAR_CA", str(tmp_path / "ca.pem"))
    assert load_context() == Context("https://other:8443", "bb_1.x", pem)


@pytest.mark.parametrize("content", [b'{"ca_pem": "x"}', b"", b"\xff\x30\x82", b"-----BEGIN"])
def test_file_that_is_no_certificate_is_refused_with_the_command_that_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    (tmp_path / "ca.pem").write_bytes(content)
    monkeypatch.setenv("BUSBAR_TOKEN", "bb_1.x")
    monkeypatch.setenv("BUSBAR_URL", "https://other:8443/")
    monkeypatch.setenv("BUSBAR_CA", str(tmp_path / "ca.pem"))
    with pytest.raises(ApiError, match="BUSBAR_CA") as refused:
        load_context()
    assert "curl -fsSk https://other:8443/install/ca.pem -o ca.pem" in str(refused.value)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("url", "ca"),
    [("", "ca.pem"), ("http://a", "ca.pem"), ("https://a", ""), ("https://a", "absent.pem")],
)
def test_incomplete_environment_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, ca: str
) -> None:
    (tmp_path / "ca.pem").write_bytes(certificate())
    monkeypatch.setenv("BUSBAR_TOKEN", "bb_1.x")
    monkeypatch.setenv("BUSBAR_URL", url)
    monkeypatch.setenv("BUSBAR_CA", str(tmp_path / ca) if ca else "")
    with pytest.raises(ApiError, match="BUSBAR_"):
        load_context()


def test_appliance_that_does_not_respond_is_named() -> None:
    pem = certificate().decode()
    with pytest.raises(ApplianceUnreachable) as silent:
        Api(Context(DEAD_PORT, "t", pem)).request("GET", "me")
    assert str(silent.value).startswith(f"The appliance at {DEAD_PORT} does not respond: ")
    assert str(silent.value).endswith(" refused. Find the cause with: busbar doctor")


class Mute(BaseHTTPRequestHandler):
    """A server of something else, which ends connections without a response."""

    def do_GET(self) -> None: ...


def test_server_without_a_response_is_told_in_a_sentence(tmp_path: Path) -> None:
    with tls_server(tmp_path, Mute) as context:
        with pytest.raises(ApplianceUnreachable, match=r"a response\. Find the cause"):
            Api(context).request("GET", "me")
        with pytest.raises(ApplianceUnreachable, match=r"a response\. Check address"):
            fetch_ca(context.url)


def test_certificate_that_is_not_trusted_is_no_silent_appliance(tmp_path: Path) -> None:
    with tls_server(tmp_path, Mute) as context:
        other = replace(context, ca_pem=certificate().decode())
        with pytest.raises(ApplianceUnreachable, match=r"^The certificate of .* is not trusted: "):
            Api(other).request("GET", "me")
        with (
            Client(other.url, other.token, other.ca_pem) as client,
            pytest.raises(Unreachable, match=r"^The certificate of .* is not trusted: "),
        ):
            client.send("GET", "me")


def test_logout_deletes_the_credentials_of_an_appliance_that_does_not_respond() -> None:
    path = save_context(Context(DEAD_PORT, "t", certificate().decode()))
    with pytest.raises(ApiError, match=r"are deleted, but .* the token may still be valid there"):
        logout()
    assert not path.exists()


class Failing(BaseHTTPRequestHandler):
    """An appliance whose database is full."""

    def do_DELETE(self) -> None:
        self.send_error(507)

    def log_message(self, format: str, *args: object) -> None: ...


def test_logout_keeps_the_credentials_if_the_appliance_fails(tmp_path: Path) -> None:
    with tls_server(tmp_path, Failing) as context:
        path = save_context(context)
        with pytest.raises(ApplianceUnreachable, match="responded with status 507"):
            logout()
    assert path.exists()


@pytest.mark.parametrize(
    ("folder", "left"), [("busbar", []), ("named", ["named"])], ids=["own", "of BUSBAR_CONTEXT"]
)
def test_logout_leaves_only_a_folder_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, left: list[str]
) -> None:
    base = tmp_path / "config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(base))
    if left:
        monkeypatch.setenv("BUSBAR_CONTEXT", str(base / folder / "context.json"))
    else:
        monkeypatch.delenv("BUSBAR_CONTEXT")
    save_context(Context(DEAD_PORT, "t", certificate().decode()))
    with pytest.raises(ApiError, match="are deleted"):
        logout()
    assert [path.name for path in base.rglob("*")] == left


def test_address_without_a_token_does_not_stand_for_the_stored_appliance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BUSBAR_URL", "https://127.0.0.1:9999")
    with pytest.raises(ApiError, match=r"needed together; not set: BUSBAR_TOKEN, BUSBAR_CA\.") as e:
        load_context()
    assert e.value.exit_code == 2
    signed_in = [f for f in findings("") if f.check == "sign-in"]
    assert [f.state for f in signed_in] == ["failed"] and "BUSBAR_URL" in signed_in[0].fix


def test_other_scheme_than_https_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBAR_TOKEN", "bb_1.x")
    monkeypatch.setenv("BUSBAR_URL", "http://a:8443")
    monkeypatch.setenv("BUSBAR_CA", str(tmp_path / "ca.pem"))
    with pytest.raises(ApiError, match=r"The scheme of BUSBAR_URL must be https \(was: http://a:"):
        load_context()
