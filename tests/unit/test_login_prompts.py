"""The prompts of `busbar login`."""

from __future__ import annotations

import io
from typing import NoReturn

import pytest

from remoting.cli import login_command
from remoting.cli.api import DEVICE_COOKIE, EXIT_DENIED, EXIT_USAGE, Api, ApiError, Context
from remoting.cli.login_command import ask_new_password
from remoting.cli.prompts import ask
from tests.unit.test_every_command import certificate


def test_new_password_is_asked_twice_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["fjord", "fjrod", "lamp", "lamp"])
    monkeypatch.setattr("getpass.getpass", lambda _: next(typed))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert ask_new_password() == "lamp" and next(typed, None) is None
    assert "passwords differ" in capsys.readouterr().err


def fail_if_asked(_: str) -> str:
    raise AssertionError("asked at the terminal of the session")


def test_script_gives_each_answer_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("getpass.getpass", fail_if_asked)
    monkeypatch.setattr("sys.stdin", io.StringIO("lamp\n123456\n"))
    assert ask_new_password(stdin=True) == "lamp"
    assert ask("Code: ", "Repeat.", hidden=False, reads_stdin=True) == "123456"
    with pytest.raises(ApiError, match=r"Code: standard input has no more lines\.$"):
        ask("Code: ", "Repeat.", reads_stdin=True)
    assert capsys.readouterr() == ("", "")


def test_closed_standard_input_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ApiError, match="there is no terminal to ask in"):
        ask("Code: ", "Repeat.")
    with pytest.raises(ApiError, match="standard input has no more lines"):
        ask("Code: ", "Repeat.", reads_stdin=True)


def test_login_without_a_terminal_says_what_to_repeat_it_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("getpass.getpass", fail_if_asked)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    pem = certificate().decode()
    monkeypatch.setattr(login_command.rest, "fetch_ca", lambda _: pem)
    fingerprint = next(iter(login_command.rest.split_certificates(pem)))
    for given, needed in (("", "--ca-sha256"), (fingerprint, "Repeat with --device")):
        with pytest.raises(ApiError, match=needed) as refused:
            login_command.login("https://127.0.0.1:9", "admin", given)
        assert refused.value.exit_code == EXIT_USAGE


def refusal_of_token(monkeypatch: pytest.MonkeyPatch, typed: str) -> ApiError:
    """Sign in with a token on standard input at an appliance that refuses it."""

    def refuse(api: Api, *_: object, **__: object) -> NoReturn:
        raise api.problem("Authentication is required.", 401, "unauthenticated")

    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    monkeypatch.setattr(Api, "send", refuse)
    pem = certificate().decode()
    monkeypatch.setattr(login_command.rest, "fetch_ca", lambda _: pem)
    fingerprint = next(iter(login_command.rest.split_certificates(pem)))
    with pytest.raises(ApiError) as refused:
        login_command.login("https://127.0.0.1:9", ca_sha256=fingerprint, token_stdin=True)
    return refused.value


def test_wrong_token_is_told_from_a_stored_one(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = refusal_of_token(monkeypatch, "bb_wrong\n")
    assert str(refused).startswith("The token from standard input is not valid: it is wrong, or")
    assert "Nothing was stored" in str(refused) and refused.exit_code == EXIT_DENIED


@pytest.mark.parametrize("typed", ["", "\n", " \n"])
def test_empty_standard_input_has_no_token(monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    refused = refusal_of_token(monkeypatch, typed)
    assert str(refused).startswith("No token was read from standard input.")
    assert refused.exit_code == EXIT_USAGE


def test_token_is_asked_for_without_echo_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("getpass.getpass", lambda prompt: asked.append(prompt) or "bb_1.x")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert login_command.given_token() == "bb_1.x" and asked == ["API token: "]


@pytest.mark.parametrize("given", ["abc", "g" * 64, "ab" * 33])
def test_text_that_is_no_fingerprint_is_told_from_a_wrong_one(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setattr(login_command.rest, "fetch_ca", fail_if_asked)
    with pytest.raises(ApiError, match="is no SHA-256 fingerprint: it has 64 hexadecimal") as e:
        login_command.trusted_ca("https://127.0.0.1:9", given, asks=False)
    assert e.value.exit_code == EXIT_USAGE


def test_cookie_of_an_appliance_that_does_not_know_the_device_replaces_the_stored_one() -> None:
    api = Api(Context("https://127.0.0.1:1", "", certificate().decode(), "stored"))
    assert api.device == "stored"
    api._client.cookies.set(DEVICE_COOKIE, "new", domain="127.0.0.1")
    assert api.device == "new"
