"""Images with variables that the session server could miss, and so not charge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.launcher_control import Partition
from tests.remoting.node import LocalNode
from tests.remoting.test_images import image, status
from tests.suites.fuzz_image_seeds import PTX_ENTRY, TEXT, entry, fatbin

LIMIT = 32 << 20
OUT_OF_MEMORY, INVALID_PTX, NOT_FOUND = 2, 218, 500
VARIABLE = b".b8 big[67108864];\n"
"""More than the limit."""
HIDDEN = {
    "target is the name of an instruction": TEXT + b".target ld\n.global " + VARIABLE,
    "target on the next line": TEXT + b".target\nld\n.global " + VARIABLE,
    "pragma that ends with extern": TEXT + b".pragma .extern\n.global " + VARIABLE,
    "file that ends with ptr": TEXT + b".file .ptr\n.global " + VARIABLE,
    "file with an instruction behind it": TEXT + b".file 1 ; ld\n.global " + VARIABLE,
    "nested attribute": TEXT + b".global .attribute(.unified(1, 2)) " + VARIABLE,
    "attribute with a semicolon": TEXT + b".global .attribute(;) " + VARIABLE,
    "comment with a carriage return": TEXT + b"// \r/*\n.global " + VARIABLE + b"// */\n",
    "prototype with an open brace": TEXT
    + b".func f() { p: .callprototype { ; }\n.global "
    + VARIABLE,
    "section with an initial value": TEXT + b".section s { .global .b8 x = }\n.global " + VARIABLE,
    "values of an empty array": TEXT + b".global .b128 a[0] = {" + b"0," * (LIMIT // 16) + b"0};\n",
}


@pytest.fixture(scope="module")
def small_node() -> Iterator[LocalNode]:
    node = LocalNode()
    node.partitions = (Partition(node.gpus[0], LIMIT, 50),)
    node.grant()
    yield node
    node.stop()


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_variable_above_the_limit_is_refused(
    small_node: LocalNode, name: str, tmp_path: Path
) -> None:
    file = image(tmp_path, HIDDEN[name])
    assert status(small_node, "load", file) in {OUT_OF_MEMORY, INVALID_PTX}


def test_entry_without_text_hides_no_other_entry(small_node: LocalNode, tmp_path: Path) -> None:
    large = (TEXT + b".global " + VARIABLE).ljust(1 << 10, b"\0")
    content = fatbin(entry(PTX_ENTRY, bytes(8), arch=90), entry(PTX_ENTRY, large, arch=80))
    assert status(small_node, "load", image(tmp_path, content)) == OUT_OF_MEMORY


def test_external_variable_has_no_memory(small_node: LocalNode, tmp_path: Path) -> None:
    file = image(tmp_path, TEXT + b".extern .global " + VARIABLE)
    assert status(small_node, "load", file) == 0
    assert status(small_node, "find_big", file) == NOT_FOUND
