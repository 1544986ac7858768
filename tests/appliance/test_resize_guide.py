"""The commands of docs/guides/resize.md work in their order, and print what it shows."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings

from appliance.accounts.models import User
from appliance.inventory.models import Node
from deploy.supervisor import ROOT
from tests.appliance.commands_in_process import busbar_for
from tests.appliance.conftest import GIB, Cast, body
from tests.appliance.test_resizing import URL, report

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
GUIDE = ROOT / "docs" / "guides" / "resize.md"
OF_A_CONNECTION = (["login"], ["allocation", "attach"])
HELD = 40 * GIB - -(-GIB * 64 // 10)
"""Bytes that the program holds after it has freed some of them."""
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))


def blocks() -> Iterator[tuple[list[list[str]], list[str]]]:
    """Yield the command lines of each block of the guide, and the lines that it shows of them."""
    found = re.findall(r"^```(text)?\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    for i, (kind, text) in enumerate(found):
        if kind != "text":
            shown = found[i + 1][1] if i + 1 < len(found) and found[i + 1][0] else ""
            yield [shlex.split(line) for line in text.splitlines()], shown.splitlines()


def shows_in_order(output: str, expected: list[str]) -> bool:
    position = 0
    for text in expected:
        position = output.find(text, position) + 1
        if not position:
            return False
    return True


class Reader:
    """A reader of the guide who owns the allocation `train`, and the node that has it."""

    def __init__(self, client: Any, node: Node, busbar: Callable[..., Any]) -> None:
        self.client, self.node, self.busbar = client, node, busbar

    @property
    def train(self) -> str:
        (row,) = (r for r in body(self.client.get(URL))["items"] if r["name"] == "train")
        return str(row["id"])

    def enter(self, words: list[str]) -> str:
        """Run a command line and return its output."""
        if words[0] == "curl":
            return self.send(words)
        if any(words[1 : 1 + len(c)] == c for c in OF_A_CONNECTION):
            return ""
        waits = ["--wait", "0"] if words[1] == "resize" else []
        done = self.busbar(*words[1:], *waits)
        assert done.status == 0, (words, done.err)
        return str(done.out)

    def send(self, words: list[str]) -> str:
        value = {name: words[words.index(name) + 1] for name in ("-X", "--json")}
        path = "/" + words[-1].split("/", 3)[3].replace("ID", self.train)
        response = self.client.generic(value["-X"], path, value["--json"], "application/json")
        assert response.status_code == 202, response.content
        for name, given in json.loads(value["--json"]).items():
            assert body(response)[name] == given
        return ""


def test_commands_of_the_guide_work_in_their_order(
    cast: Cast,
    client_of: Clients,
    add_node: AddNode,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    client, node = client_of(cast.alice), add_node("gpu-1", memory_bytes=80 * GIB)
    reader = Reader(client, node, busbar_for(client, monkeypatch, capsys))
    client.post(URL, {"percent": 40}, format="json")
    report(node)
    held, commands, shown = [HELD], 0, 0
    for lines, expected in blocks():
        if lines == [["busbar", "allocation", "show", "train"]]:  # the program frees memory
            report(node, {reader.train: held})
        output = "".join(map(reader.enter, lines))
        if lines[0][:2] != ["busbar", "resize"] or "-m" not in lines[0]:
            report(node)
        assert shows_in_order(output, expected), (lines, output)
        commands, shown = commands + len(lines), shown + len(expected)
    assert commands > 12 and shown > 5
