"""Shell completion of object names."""

from __future__ import annotations

import re
from collections.abc import Callable

from remoting.cli.api import Api, ApiError, load_context

TIMEOUT_SECONDS = 2.0
PLAIN = re.compile(r"\w[\w@%+:,./-]*")
"""Names that are one word for every shell. Shells insert completed names without quotes, and that
of zsh evaluates them, so others are left out: users and machines choose names."""


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
        return [n for n in candidates if n.startswith(incomplete) and PLAIN.fullmatch(n)]

    return complete
