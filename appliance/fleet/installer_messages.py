"""Messages from a machine that is being enrolled over SSH.

The machine is not trusted yet: whatever it sends, the enrolment fails with a problem and is rolled
back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from appliance.api.errors import ApplianceError, Code

MAX_STEPS, MAX_CHECKS, MAX_TEXT = 200, 100, 1000
CHECK_FIELDS = ("check", "state", "found", "fix")


class Step(NamedTuple):
    percent: int
    text: str
    waiting: bool
    """The installer waits for the commit."""


def invalid_message() -> ApplianceError:
    return ApplianceError(
        Code.INSTALLATION_FAILED,
        "The machine sent a message that the installer never sends; the installation on the machine"
        " is rolled back. Look for another program that prints at sign-in.",
    )


def parse_step(message: dict[str, Any]) -> Step:
    """Return a step of the installation. Raises ApplianceError INSTALLATION_FAILED."""
    percent, text = message.get("percent"), message.get("step")
    if not (isinstance(percent, int) and 0 <= percent <= 100 and isinstance(text, str)):
        raise invalid_message()
    return Step(percent, text[:MAX_TEXT], message.get("waiting") is True)


def parse_checks(message: dict[str, Any]) -> list[dict[str, str]]:
    """Return the table of the preflight. Raises ApplianceError INSTALLATION_FAILED."""
    table = message.get("table")
    if not isinstance(table, list) or len(table) > MAX_CHECKS:
        raise invalid_message()
    return [parse_check(row) for row in table]


def parse_check(row: Any) -> dict[str, str]:
    if not isinstance(row, dict) or not all(isinstance(row.get(f), str) for f in CHECK_FIELDS):
        raise invalid_message()
    return {field: row[field][:MAX_TEXT] for field in CHECK_FIELDS}


def parse_python(message: dict[str, Any]) -> tuple[str, str, bool]:
    """Return path and version of the machine's Python, and whether the user is root.

    The path is empty if there is none. Raises ApplianceError INSTALLATION_FAILED.
    """
    python, version = message.get("python"), message.get("version", "")
    if not (isinstance(python, str) and isinstance(version, str)):
        raise invalid_message()
    return python, version, message.get("uid") == 0
