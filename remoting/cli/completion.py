"""Shell completion of object names."""

from __future__ import annotations

from collections.abc import Callable

from remoting.cli.api import Api, ApiError, load_context

TIMEOUT_SECONDS = 2.0


def complete_names(path: str, column: str = "name") -> Callable[[str], list[str]]:
    """Return a completion function over a column of a collection.

    It completes nothing if there is no signed-in user or the appliance is unreachable.
    """

    def complete(incomplete: str) -> list[str]:
        try:
            api = Api(load_context(), timeout_seconds=TIMEOUT_SECONDS)
            candidates = [str(row[column]) for row in api.items(path)]
        except ApiError:
            return []
        return [name for name in candidates if name.startswith(incomplete)]

    return complete
