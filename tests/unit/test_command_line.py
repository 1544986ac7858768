"""The command line: version, help, confirmations and programs that cannot be executed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from nodes.version import AGENT_VERSION
from remoting.cli import supervision
from remoting.cli.activity_commands import start_of_period
from remoting.cli.api import ApiError
from remoting.cli.confirmation import confirm_deletion
from remoting.cli.main import app
from remoting.cli.run_command import check_program
from remoting.cli.supervision import signals_blocked, supervise


def test_version_is_printed_without_a_context() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output) == (0, f"busbar {AGENT_VERSION}\n")


@pytest.mark.parametrize("arguments", [["-h"], ["node", "-h"], ["node", "remove", "-h"]])
def test_short_option_prints_help(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0 and "Usage: " in done.output


def test_option_of_the_program_is_not_taken_for_help() -> None:
    done = CliRunner().invoke(app, ["run", "--", "program", "-h"])
    assert "Usage: " not in done.output


def ended(program: str) -> int:
    """Run a shell program whose allocation has ended, and return the exit code of `busbar run`."""
    with signals_blocked():
        return supervise(["/bin/sh", "-c", program], {}, lambda: "over")


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("sleep 60", 143),
        ("trap 'exit 0' TERM; sleep 60 & wait", 143),
        ("trap 'exit 7' TERM; sleep 60 & wait", 7),
    ],
)
def test_end_of_the_allocation_ends_the_program_with_143(program: str, status: int) -> None:
    assert ended(program) == status


def test_program_that_ignores_the_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "KILL_SECONDS", 1.0)
    assert ended("trap '' TERM; while :; do sleep 1; done") == 143


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell: str) -> None:
    done = CliRunner().invoke(app, ["completion", shell])
    assert done.exit_code == 0 and "_BUSBAR_COMPLETE" in done.output


def test_deletion_without_terminal_needs_yes() -> None:
    confirm_deletion("node a", "2 GPUs", yes=True)
    with pytest.raises(ApiError, match="Delete node a, with 2 GPUs") as refused:
        confirm_deletion("node a", "2 GPUs", yes=False)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("answer", [True, False])
def test_deletion_asks_on_a_terminal(monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda text, abort: asked.append(text) or abort)
    confirm_deletion("node a", "2 GPUs", yes=answer)
    assert asked == ([] if answer else ["Delete node a, with 2 GPUs?"])


def test_program_that_cannot_be_executed_has_the_exit_code_of_a_shell(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    for name, code in (("/no/such", 127), ("no-such-program", 127), (str(script), 126)):
        with pytest.raises(ApiError) as refused:
            check_program(name)
        assert refused.value.exit_code == code
    script.chmod(0o755)
    check_program(str(script))
    with signals_blocked(), pytest.raises(ApiError) as refused:
        supervise([str(script)], {}, lambda: "")
    assert refused.value.exit_code == 126


@pytest.mark.parametrize("hours", [0.0, -1.0, 87841.0, float("nan")])
def test_period_says_its_bounds(hours: float) -> None:
    with pytest.raises(ApiError, match="must be a number above 0 and at most 87840"):
        start_of_period(hours)
