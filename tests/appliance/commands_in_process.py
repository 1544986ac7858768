"""The busbar command against the appliance of the test, without network and processes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import typer
from rest_framework.test import APIClient

from busbar_client.connection import texts
from nodes.top_level import exit_status_of
from remoting.cli import output
from remoting.cli.api import Api, ApiError, ApplianceUnreachable, Context
from remoting.cli.main import app

COMMAND: Any = typer.main.get_command(app)
ALL_LOADED = dict(COMMAND.commands)
"""Keeps the modules of all commands imported, so that a test can replace `client` in each."""


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    status: int
    out: str
    err: str


class InProcessApi(Api):
    """Sends requests to Django's test client."""

    def __init__(self, client: APIClient) -> None:
        self._test_client = client
        self._context = Context("https://appliance", "t", "")
        self.requests: list[str] = []

    def respond(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, Any],
        headers: Mapping[str, str],
    ) -> httpx.Response:
        url = f"/api/v1/{path}"
        if query:
            url = str(httpx.URL(url, params=texts(query)))
        self.requests.append(f"{method} {url}")
        content = "" if body is None else json.dumps(body)
        found = self._test_client.generic(method, url, content, "application/json")
        response = httpx.Response(found.status_code, content=found.content)
        if response.status_code >= 500:
            raise ApplianceUnreachable(f"status {response.status_code}")
        if response.status_code >= 400:
            raise self._problem_of(response)
        return response


Busbar = Callable[..., Done]
BusbarOf = Callable[[APIClient], Busbar]


def busbar_for(
    client: APIClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Busbar:
    """Return a function that runs a command line as the user of a client."""
    api = InProcessApi(client)

    def run(*line: str, stdin: str = "") -> Done:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        for module in modules_with_client():
            monkeypatch.setattr(module, "client", lambda: api)
        try:
            status = exit_status_of(
                "busbar", lambda: COMMAND(list(line), prog_name="busbar"), ApiError
            )
        except SystemExit as exit_:
            status = exit_.code if isinstance(exit_.code, int) else 1
        printed = capsys.readouterr()
        return Done(status, printed.out, printed.err)

    return run


def modules_with_client() -> list[Any]:
    """Return the modules that import the function `client`."""
    import sys

    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("remoting.cli.") and getattr(module, "client", None) is not None
    ] or [output]
