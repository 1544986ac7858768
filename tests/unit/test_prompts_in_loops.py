"""Commands in a loop over the lines of a file, which are their standard input."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
import typer

from nodes.top_level import exit_status_of
from remoting.cli import login_command, node_commands, second_factor_commands
from remoting.cli.api import EXIT_USAGE, ApiError
from remoting.cli.main import app
from tests.unit.test_every_command import certificate

BUSBAR = typer.main.get_command(app)
HOSTS = "gpu-08\ngpu-09\n"
SECRETS = ("password", "passphrase", "sudo_password", "code")


class RecordingApi:
    """An appliance that accepts each request and keeps the secrets of its body."""

    device = ""

    def __init__(self) -> None:
        self.secrets: list[str] = []

    def request(self, method: str, path: str, body: dict[str, str] | None = None) -> object:
        self.secrets += [body[name] for name in SECRETS if name in body] if body else []
        return {
            "state": "succeeded",
            "message": "",
            "result": None,
            "qr": ["01"],
            "secret": "s",
            "recovery_codes": [],
            "must_change_password": False,
            "token": "t",
        }


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RecordingApi:
    made = RecordingApi()
    for module in (node_commands, second_factor_commands):
        monkeypatch.setattr(module, "client", lambda: made)
    monkeypatch.setattr(login_command.rest, "Api", lambda _: made)
    monkeypatch.setenv("BUSBAR_CONTEXT", str(tmp_path / "context.json"))
    monkeypatch.setattr(login_command, "trusted_ca", lambda *_, **__: certificate().decode())
    monkeypatch.setattr("sys.stdin", io.StringIO(HOSTS))
    return made


@pytest.fixture
def key(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_text("ENCRYPTED")
    return file


def lines(key: Path) -> dict[str, list[str]]:
    """Return a command for each question for a secret."""
    return {
        "password": ["node", "add", "ssh://root@gpu-07"],
        "passphrase": ["node", "add", "ssh://root@gpu-07", "--key", str(key)],
        "sudo password": ["node", "add", "ssh://ada@gpu-07", "--key", str(key)],
        "login": ["login", "https://127.0.0.1:9"],
        "code": ["second-factor", "enable"],
    }


def run(line: list[str]) -> int:
    try:
        return exit_status_of("busbar", lambda: BUSBAR(line, prog_name="busbar"), ApiError)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else 1


each_question = pytest.mark.parametrize("question", lines(Path()))


@each_question
def test_line_of_a_loop_is_taken_for_no_secret(
    question: str, api: RecordingApi, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(lines(key)[question]) == EXIT_USAGE
    assert "there is no terminal to ask in" in (told := capsys.readouterr().err)
    assert "--password-stdin" in told
    assert (api.secrets, sys.stdin.read()) == ([], HOSTS)


@each_question
def test_option_reads_the_secrets_from_standard_input(
    question: str, api: RecordingApi, key: Path
) -> None:
    assert run([*lines(key)[question], "--password-stdin"]) == 0
    expected = ["gpu-08", "gpu-09"] if question == "sudo password" else ["gpu-08"]
    assert api.secrets == expected
