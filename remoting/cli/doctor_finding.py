"""The result of one check of `busbar doctor`."""

from __future__ import annotations

from dataclasses import dataclass

from remoting.cli.api import ApiError, ApplianceUnreachable

OK, WARNING, FAILED = "ok", "warning", "failed"
CHECK_PORT = (
    "Check the address and that the appliance runs, and ask for this TCP port in the firewalls"
    " between."
)


@dataclass(frozen=True)
class Finding:
    """One line of the output, with the same fields as a row of a node's preflight."""

    check: str
    state: str
    found: str
    fix: str = ""
    """A sentence that says what to do; empty if the state is OK."""


def failed(check: str, error: ApiError, fix: str = "", unreachable: str = CHECK_PORT) -> Finding:
    """Return the finding of an error. The sentences after its first one say what to do, or `fix`.

    For an appliance that cannot be reached they name the doctor, so `unreachable` does.
    """
    found, end, rest = str(error).partition(". ")
    found += end.strip()
    if isinstance(error, ApplianceUnreachable) and error.__cause__ is not None:
        return Finding(check, FAILED, found, unreachable)
    return Finding(check, FAILED, found, rest or fix)
