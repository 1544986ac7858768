"""Errors of commands with their exit codes."""

from __future__ import annotations

from typing import Any

from remoting.cli.printable import printable

EXIT_ERROR, EXIT_USAGE, EXIT_NOT_FOUND, EXIT_CONFLICT, EXIT_DENIED, EXIT_TIMEOUT = 1, 2, 3, 4, 5, 6

_EXIT_BY_STATUS = {
    400: EXIT_USAGE,
    410: EXIT_CONFLICT,
    422: EXIT_CONFLICT,
    401: EXIT_DENIED,
    403: EXIT_DENIED,
    404: EXIT_NOT_FOUND,
    409: EXIT_CONFLICT,
    412: EXIT_CONFLICT,
}


def exit_code_of(status: int) -> int:
    """Return the exit code of a command whose request got this HTTP status."""
    return _EXIT_BY_STATUS.get(status, EXIT_ERROR)


class ApiError(Exception):
    """Error reported by the appliance, or a usage error, with the exit code of the command.

    `code` is the appliance's error code, `fields` the whole problem document. Characters that
    control a terminal are escaped: the detail may quote a name that another user chose.
    """

    def __init__(
        self,
        detail: str,
        exit_code: int = EXIT_ERROR,
        code: str = "",
        fields: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(printable(detail))
        self.fields = fields or {}
        self.exit_code = exit_code
        self.code = code


class ApplianceUnreachable(ApiError):
    """The appliance did not respond or responded with a 5xx status. A retry may succeed."""
