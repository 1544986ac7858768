"""Output of `busbar`: text of others controls no terminal, and credentials stay private."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import orjson
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from rich.console import Console

from appliance.fleet.certificates import load_authority
from remoting.cli import completion
from remoting.cli.api import Api, ApiError, Context, save_context
from remoting.cli.gpu_commands import CAPACITY_COLUMNS
from remoting.cli.output import cell, headings_of, table_of

HOSTILE = "[red]a[/nonsense]\x1b[2J\x1b]0;title\x07\x9b1m\u202etxt\r"
CONTROL = set("\x1b\x07\x9b\u202e\r")


def api_that_replies(folder: Path, status: int, content: object) -> Api:
    pem = load_authority(folder).certificate.public_bytes(Encoding.PEM).decode()
    api = Api(Context("https://127.0.0.1:1", "token", pem))
    reply = httpx.MockTransport(lambda request: httpx.Response(status, json=content))
    api._client = httpx.Client(transport=reply, base_url="https://127.0.0.1:1")
    return api


def printed(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=True).print(table_of(rows, ["name", "labels"]))
    return out.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "")  # the bold heading


def test_headings_of_nested_fields_are_different() -> None:
    assert headings_of(["name", "resize.reason"]) == ["name", "reason"]
    columns = headings_of(CAPACITY_COLUMNS)
    assert columns[:2] == ["name", "gpus capacity"] and "memory capacity" in columns
    assert len(set(columns)) == len(columns)


def test_names_of_others_are_printed_as_text(tmp_path: Path) -> None:
    row = {"name": HOSTILE, "labels": {HOSTILE: HOSTILE}}
    text = printed([api_that_replies(tmp_path, 200, row).request("GET", "allocations/1")])
    assert "[red]a[/nonsense]\\x1b[2J" in text and not CONTROL & set(text)


def test_errors_and_events_are_printed_as_text(tmp_path: Path) -> None:
    content = {"detail": HOSTILE, "errors": [{"pointer": HOSTILE, "message": HOSTILE}]}
    with pytest.raises(ApiError) as refused:
        api_that_replies(tmp_path, 400, content).request("GET", "allocations/1")
    assert not CONTROL & set(str(refused.value))
    api = api_that_replies(tmp_path, 200, {})
    stream = f"id: 1\nevent: task\ndata: {json.dumps({'row': {'message': HOSTILE}})}\n\n"
    reply = httpx.MockTransport(lambda request: httpx.Response(200, text=stream))
    api._client = httpx.Client(transport=reply, base_url="https://127.0.0.1:1")
    ((_, _, data),) = api.stream("watch")
    assert not CONTROL & set(data["row"]["message"])


def test_lines_of_certificates_and_notes_stay(tmp_path: Path) -> None:
    content = {"ca_pem": "-----BEGIN\nabc\n", "notes": "Fans:\tnew é"}
    assert api_that_replies(tmp_path, 200, content).request("GET", "ca") == content


def test_shown_request_has_no_secret(tmp_path: Path) -> None:
    shown: list[str] = []
    Api.trace = shown.append
    try:
        body = {"username": "ann", "password": "s3cret", "private_key": "s3cret", "port": 22}
        api_that_replies(tmp_path, 200, {}).request("POST", "nodes/enrol-ssh", body)
    finally:
        Api.trace = None
    assert "ann" in shown[0] and "s3cret" not in shown[0]


def test_credentials_are_not_written_through_a_link(tmp_path: Path) -> None:
    """Another user may make a file or link of this name in a shared folder at any time."""
    theirs, path = tmp_path / "theirs", tmp_path / "context.json"
    theirs.write_text("before")
    theirs.chmod(0o666)
    original = os.replace

    def race(source: str, target: Path) -> None:
        path.symlink_to(theirs)
        original(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", race)
        save_context(Context("https://a", "token", "pem"), path)
    assert theirs.read_text() == "before" and not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["token"] == "token"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["context.json", "theirs"]


@pytest.mark.parametrize("name", [HOSTILE, "a\u2028b", "a\x85b", "a\x7f\x9bb"])
def test_exported_lines_are_whole_and_control_no_terminal(tmp_path: Path, name: str) -> None:
    """A stranger chooses the name of a failed login."""
    rows = [{"sequence": n, "actor": name} for n in (1, 2)]
    text = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    api = api_that_replies(tmp_path, 200, {})
    reply = httpx.MockTransport(lambda request: httpx.Response(200, content=text))
    api._client = httpx.Client(transport=reply, base_url="https://127.0.0.1:1")
    lines = api.json_lines("audit/export")
    assert [json.loads(line) for _, line in lines] == rows
    assert all(line.isascii() and line.isprintable() for _, line in lines)


def test_completed_names_are_one_word_for_every_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = ["a;reboot", "a$(reboot)", "a`reboot`", "a\\", "<(reboot)", "a b", "-rf", "a'", "a|b"]
    good = ["alice", "n1.example.org", "grünes-projekt", "项目"]
    rows = [{"name": name} for name in (*hostile, *good)]
    api = SimpleNamespace(items=lambda path: rows)
    monkeypatch.setattr(completion, "load_context", lambda: None)
    monkeypatch.setattr(completion, "Api", lambda *context, **options: api)
    assert completion.complete_names("users")("") == good
    assert completion.complete_names("users")("al") == ["alice"]


def test_duplicate_of_a_node_that_the_user_may_not_view_has_no_name() -> None:
    rows: list[dict[str, Any]] = [
        {"duplicate_of": None, "duplicate_of_node": None},
        {"duplicate_of": "1", "duplicate_of_node": None},
        {"duplicate_of": "1", "duplicate_of_node": "gpu-07"},
    ]
    assert [cell(row, "duplicate_of_node") for row in rows] == ["-", "another node", "gpu-07"]
