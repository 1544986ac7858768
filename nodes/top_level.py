"""Top-level handler of commands: an error becomes one line and an exit status, not a traceback."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable

INTERRUPTED = 130
PROBLEM = 1


def exit_status_of(
    name: str,
    main: Callable[[], int | None],
    expected: type[Exception] | tuple[type[Exception], ...] = (),
    *,
    is_service: bool = False,
) -> int:
    """Run a command and return its exit status.

    The message of an `expected` error is shown as it is; its `exit_code`, if it has one, is the
    status. The traceback of an unexpected error is
    shown with BUSBAR_DEBUG=1, and for services, whose output is a log.
    """
    try:
        return main() or 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except expected as error:
        report(name, str(error), is_service=is_service)
        return int(getattr(error, "exit_code", PROBLEM))
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            report(name, f"{error.strerror}: {error.filename!r}", is_service=is_service)
            return PROBLEM
        problem = f"internal error: {type(error).__name__}: {error}"
        if is_service:
            logging.getLogger(name).critical(problem, exc_info=error)
            return PROBLEM
        if os.environ.get("BUSBAR_DEBUG"):
            traceback.print_exc()
        report(name, f"{problem}. BUSBAR_DEBUG=1 shows where it happened.")
    return PROBLEM


def report(name: str, problem: str, *, is_service: bool = False) -> None:
    if is_service:
        logging.getLogger(name).critical(problem)
    else:
        print(f"{name}: {problem}", file=sys.stderr)
