"""Operation ids of the OpenAPI document, computed from a route and a method."""

from __future__ import annotations

import re
from functools import lru_cache

PREFIX = "api/v1/"
VERBS = {"POST": "create", "PUT": "update", "PATCH": "partial_update", "DELETE": "destroy"}


@lru_cache(1024)
def operation_id(method: str, route: str) -> str:
    """Return the id, such as `pools_partial_update`.

    Reads of a route that ends with a parameter are `retrieve`, other reads `list`; in the document
    the latter are `retrieve` if they return one object.
    """
    verb = VERBS.get(method) or ("retrieve" if route.endswith(">") else "list")
    words = re.sub(r"<[^>]*>", "", route.removeprefix(PREFIX)).split("/")
    return "_".join([w.replace("-", "_") for w in words if w] + [verb])
