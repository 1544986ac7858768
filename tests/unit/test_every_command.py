"""Every command fails with a sentence without appliance, credentials, files or terminal."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from typer.core import TyperArgument, TyperGroup, TyperOption

from nodes.top_level import exit_status_of
from remoting.cli.api import ApiError
from remoting.cli.main import app

WITHOUT_APPLIANCE = {("runs",)}
DEAD_PORT = "https://127.0.0.1:9"


def value_of(parameter: TyperArgument | TyperOption) -> str:
    values = {"integer": "1", "duration": "1s", "path": "/proc/nowhere"}
    return values.get((parameter.metavar or "").lower(), "x")


def commands(command: Any, *names: str) -> Iterator[tuple[str, ...]]:
    """Yield the names of each command with a value for all that it requires."""
    if isinstance(command, TyperGroup):
        for name, sub in command.commands.items():
            yield from commands(sub, *names, name)
        return
    line = list(names)
    for p in (p for p in command.params if p.required and isinstance(p, TyperOption)):
        line += [p.opts[0], value_of(p)]
    arguments = [value_of(p) for p in command.params if isinstance(p, TyperArgument)]
    yield (*line, *(["--", *arguments] if arguments else []))


BUSBAR = typer.main.get_command(app)
COMMANDS = list(commands(BUSBAR))


def certificate() -> bytes:
    key, name = Ed25519PrivateKey.generate(), x509.Name([])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    valid = made.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return valid.sign(key, None).public_bytes(Encoding.PEM)


def absent_context(folder: Path) -> dict[str, str]:
    return {"BUSBAR_CONTEXT": str(folder / "absent")}


def damaged_context(folder: Path) -> dict[str, str]:
    path = folder / "context.json"
    path.write_text('{"url": "https://127.0.0.1:9", "token": "t", "ca_pem": "x"}')
    return {"BUSBAR_CONTEXT": str(path)}


def dead_port(folder: Path) -> dict[str, str]:
    path = folder / "ca.pem"
    path.write_bytes(certificate())
    return {"BUSBAR_URL": DEAD_PORT, "BUSBAR_TOKEN": "t", "BUSBAR_CA": str(path)}


def unwritable_home(folder: Path) -> dict[str, str]:
    return dead_port(folder) | {name: "/proc/nowhere" for name in ("HOME", "XDG_CONFIG_HOME")}


@pytest.mark.parametrize(
    "circumstance", [absent_context, damaged_context, dead_port, unwritable_home]
)
@pytest.mark.parametrize("line", COMMANDS, ids=" ".join)
def test_every_command_fails_with_a_sentence(
    line: tuple[str, ...],
    circumstance: Callable[[Path], dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    variables = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)} | circumstance(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    try:
        status = exit_status_of("busbar", lambda: BUSBAR(line, prog_name="busbar"), ApiError)
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else 1
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err and "internal error" not in printed.err
    assert status == 0 if line in WITHOUT_APPLIANCE else status != 0 and printed.err
