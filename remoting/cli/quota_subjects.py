"""Subjects of quotas in command lines: user/NAME, project/NAME or department/NAME."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from remoting.cli.errors import EXIT_NOT_FOUND, EXIT_USAGE, ApiError

KINDS = ("user", "project", "department")
QuotaSubject = Annotated[
    str,
    typer.Argument(
        help="user/NAME, project/NAME or department/NAME.",
        autocompletion=lambda: [f"{kind}/" for kind in KINDS],
    ),
]


def parse_subject(text: str) -> tuple[str, str]:
    """Return kind and name of a subject. Raises ApiError for any other form."""
    kind, _, name = text.partition("/")
    if kind not in KINDS or not name:
        raise ApiError(
            f'Give user/NAME, project/NAME or department/NAME (was: "{text[:100]}").', EXIT_USAGE
        )
    return kind, name


def quota_of(rows: list[dict[str, Any]], subject: str) -> dict[str, Any] | None:
    """Return the row of a subject, or None. Raises ApiError as `parse_subject` does."""
    wanted = parse_subject(subject)
    return next((q for q in rows if (q["subject_kind"], q["subject"]) == wanted), None)


def existing_quota_of(rows: list[dict[str, Any]], subject: str) -> dict[str, Any]:
    """Return the row of a subject. Raises ApiError also if it has none."""
    if (found := quota_of(rows, subject)) is None:
        raise ApiError(
            f"{subject} has no quota. List quotas with: busbar quota list", EXIT_NOT_FOUND
        )
    return found
