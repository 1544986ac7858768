"""What the shell offers after a name has begun. Silent when nobody is signed in or the appliance is away."""

from __future__ import annotations

from collections.abc import Callable

from remoting.cli.api import Api, ApiError, load_context

SECONDS = 2.0


def names(path: str, column: str = "name") -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        try:
            found = [
                str(row[column]) for row in Api(load_context(), timeout_seconds=SECONDS).items(path)
            ]
        except ApiError:
            return []
        return [name for name in found if name.startswith(incomplete)]

    return complete
