"""The prompts for a new password of `busbar login`."""

from __future__ import annotations

import pytest

from remoting.cli.login_command import ask_new_password


@pytest.mark.parametrize("is_terminal", [True, False])
def test_new_password_is_asked_twice_in_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_terminal: bool
) -> None:
    typed = iter(["fjord", "fjrod", "lamp", "lamp"] if is_terminal else ["lamp"])
    monkeypatch.setattr("getpass.getpass", lambda _: next(typed))
    monkeypatch.setattr("sys.stdin.isatty", lambda: is_terminal)
    assert ask_new_password() == "lamp" and next(typed, None) is None
    assert ("passwords differ" in capsys.readouterr().err) == is_terminal
