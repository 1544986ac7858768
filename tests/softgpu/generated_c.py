"""Search for memory accesses in generated C that do not go through a checked address.

The runtime (remoting/softgpu/device/runtime) is removed first; it is the only code with pointers.
"""

from __future__ import annotations

import re

from deploy.supervisor import ROOT
from remoting.codegen.runtime_text import CONSTANTS

DEVICE = ROOT / "remoting" / "softgpu" / "device"
RUNTIME = ["".join((DEVICE / f).read_text() for f in files) for files in CONSTANTS.values()]
TOKEN = re.compile(r"//[^\n]*|#[^\n]*|\"[^\"]*\"|\w+|->|<<|>>|&&|\|\||[-+<>=!]=|\+\+|--|[^\s\w]")
TYPES = {"void", "const", "Cta", "Warp", "Thread", "Bytes", "Access", "Constants"} | {
    f"{kind}{bits}" for kind in "usf" for bits in (8, 16, 32, 64, 128)
}
STRUCTURES = {"c", "w", "t", "host"}
"""Names that `->` may follow: the block, the warp, the thread and the functions of the driver."""
ADDRESSED = {"k", "shape", "scales", "from", "mask", "read", "access", "query", "copy"}
"""Local variables whose address is passed on, besides the accesses of rows."""
ARRAYS = {
    "globals",
    "is_sync",
    *("lanes_at", "bar_id", "bar_count", "bar_vote", "bar_next", "bar_sum", "bar_total"),
    *("x", "y", "z", "ntid", "ctaid", "nctaid"),
    *("A", "B", "C", "D", "F", "R", "SA", "SB", "m", "rows"),
    *("at", "texel", "source", "same", "addresses", "compared"),
    *("where", "across", "along", "offset", "values"),
}
"""Arrays that generated code declares, besides registers and parameters."""
ARRAY = re.compile(r"[rp]\d+")
FORBIDDEN = {"asm", "__asm__", "access_of", "ARGUMENT"}
"""Names that generated code must not use, though they are C or part of the runtime."""
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "__attribute__", "aligned"}


def without_runtime(text: str) -> str:
    for part in RUNTIME:
        text = text.replace(part.removesuffix("\n"), "")
    return text


def known_functions() -> set[str]:
    """Return the functions and macros of the runtime, and builtins that take no pointer."""
    names = {"__builtin_ctz", "__builtin_popcountll", "__atomic_thread_fence", "_Pragma"}
    names |= {"fault", "texture", "surface", "query", "tensor"}  # of the driver
    names |= {"members"}  # generated
    for part in RUNTIME:
        names |= set(re.findall(r"^(?:#define |\w[\w ]*[ *])(\w+)\(", part, re.MULTILINE))
        names |= {
            w.replace("##", "")
            for w in re.findall(
                r"INLINE \w+ ([\w#]+)\(", part.replace("##T", "").replace("##U", "")
            )
        }
    return names


FUNCTIONS = known_functions()
FAMILY = re.compile(
    r"f_\d+|(atomic|pk|bfe|bfi|bfind|to|sat|int|round|narrow|fn|fma|div|rem|min|max|add|sub|mul|"
    r"mulhi|mad24|mul24|test|relu|as|bits|copysign|xorsign|fabs|from|clz|brev|shf|szext|bmsk|pack|"
    r"dp4a|dp2a)_\w+"
)
"""Functions that macros of the runtime define for several types."""


def number(token: str) -> int:
    return int(token.rstrip("uULl"), 0)


def leaves_parameter(tokens: list[str]) -> bool:
    """Return whether `( parameter , offset , bytes , end )` are not constants with room enough."""
    close = tokens.index(")")
    try:
        offset, size, end = (number(tokens[i]) for i in (close - 5, close - 3, close - 1))
    except (IndexError, ValueError):
        return True
    return not 0 < offset + size <= end


def problem(tokens: list[str], i: int) -> str:
    """Return why token i is part of an unchecked access; an empty string if it is not."""
    token, before = tokens[i], tokens[i - 1] if i else ""
    behind = tokens[i + 1] if i + 1 < len(tokens) else ""
    if token == "*":
        cast = before == ")" and tokens[i - 2] in TYPES and tokens[i - 3] == "("
        value = re.fullmatch(r"\w+|\)|\]", before) and before not in TYPES | KEYWORDS
        if cast or not value or not re.fullmatch(r"\w+|\(|[-+~!&]", behind):
            return "a pointer"
    if token == "->" and before not in STRUCTURES:
        return "a pointer to a structure"
    if token == "&" and not re.fullmatch(r"\w+|\)|\]", before):
        return "" if behind in ADDRESSED or re.fullmatch(r"row\d+", behind) else "an address"
    if token == "[" and before not in ARRAYS and not ARRAY.fullmatch(before) and before != "]":
        return "an array"
    if token == "." and behind == "at":
        return "the pointer of a checked address"
    if token in FORBIDDEN or (token in {"Bytes", "Access"} and before == "(" and behind == ")"):
        return "a forbidden word"
    if token == "single_parameter" and leaves_parameter(tokens[i + 1 :]):
        return "an access outside of its parameter"
    if behind == "(" and re.fullmatch(r"[A-Za-z_]\w*", token) and token not in KEYWORDS:
        known = token in FUNCTIONS or FAMILY.fullmatch(token) or token in TYPES
        return "" if known else "an unknown function"
    return ""


def unchecked_accesses(text: str) -> list[str]:
    """Return each place of generated C that is no checked access, with its surroundings."""
    tokens = [t for t in TOKEN.findall(without_runtime(text)) if not t.startswith(("//", "#"))]
    return [
        f"{why}: {' '.join(tokens[max(0, i - 6) : i + 7])}"
        for i in range(len(tokens))
        if (why := problem(tokens, i))
    ]
