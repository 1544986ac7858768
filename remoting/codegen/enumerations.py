"""Values of the enumerations in cuda.h and nvml.h."""

from __future__ import annotations

import re
from pathlib import Path

from remoting.codegen.headers import preprocess

Enumerations = dict[str, list[str]]


def of_header(header: Path) -> Enumerations:
    """Return the names of the values of each enumeration, by its type."""
    text = re.sub(r"\s+", " ", preprocess(header))
    found = re.findall(r"typedef enum \w* ?\{([^{}]*)\} ((?:CU|nvml)\w+);", text)
    return {name: names_of(body) for body, name in found}


def names_of(body: str) -> list[str]:
    members = (part.strip() for part in body.split(","))
    return [re.split(r"\W", member, maxsplit=1)[0] for member in members if member]


def source(enumerations: Enumerations) -> str:
    """Return enumerations.inc: the values of each type, see wire/enumeration.h."""
    return "".join(
        f"template <> inline constexpr auto kValuesOf<{name}> = "
        f"std::to_array<int64_t>({{{', '.join(values)}}});\n"
        for name, values in enumerations.items()
    )
