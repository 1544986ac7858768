"""The appliance's REST API as the command uses it: contexts, the pinned CA, problems as sentences."""

from __future__ import annotations

import json
import os
import shlex
import ssl
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

EXIT_ERROR, EXIT_USAGE, EXIT_NOT_FOUND, EXIT_CONFLICT, EXIT_DENIED, EXIT_TIMEOUT = 1, 2, 3, 4, 5, 6
TIMEOUT_SECONDS = 30.0
STREAM_SECONDS = 60.0
"""Without a word; the appliance says something every quarter of a minute."""

_EXIT_BY_STATUS = {
    400: EXIT_USAGE,
    410: EXIT_CONFLICT,
    422: EXIT_CONFLICT,
    401: EXIT_DENIED,
    403: EXIT_DENIED,
    404: EXIT_NOT_FOUND,
    409: EXIT_CONFLICT,
    412: EXIT_CONFLICT,
}


class ApiError(Exception):
    """What the appliance answered, as a sentence, and the exit code that fits."""

    def __init__(
        self,
        detail: str,
        exit_code: int = EXIT_ERROR,
        code: str = "",
        fields: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.fields = fields or {}
        self.exit_code = exit_code
        self.code = code


class Away(ApiError):
    """The appliance cannot be reached just now."""


@dataclass(frozen=True)
class Context:
    url: str
    token: str
    ca_pem: str


def context_path() -> Path:
    if path := os.environ.get("BUSBAR_CONTEXT"):
        return Path(path)
    base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return base / "busbar" / "context.json"


def save_context(context: Context, path: Path | None = None) -> Path:
    """0600: it holds a token."""
    where = path or context_path()
    where.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    where.unlink(missing_ok=True)
    where.touch(mode=0o600)
    where.write_text(json.dumps(asdict(context)))
    return where


def load_context() -> Context:
    try:
        return Context(**json.loads(context_path().read_text()))
    except (OSError, ValueError, TypeError):
        raise ApiError(
            "You are not signed in; start with `busbar login https://ADDRESS:8443`.", EXIT_DENIED
        ) from None


class Api:
    told: Callable[[str], None] | None = None
    """Is told of each request, as a curl command."""

    def __init__(self, context: Context, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        tls = ssl.create_default_context(cadata=context.ca_pem)
        headers = {"Authorization": f"Bearer {context.token}"} if context.token else {}
        self._client = httpx.Client(
            base_url=f"{context.url}/api/v1/",
            verify=tls,
            timeout=timeout_seconds,
            trust_env=False,
            headers=headers,
        )

    def _tell(self, method: str, path: str, body: object, parameters: Mapping[str, str]) -> None:
        if Api.told is not None:
            url = self._client.build_request(method, path, params=parameters or None).url
            sent = (
                f" -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"
                if body is not None
                else ""
            )
            Api.told(
                f'curl --cacert ca.pem -X {method} -H "Authorization: Bearer $BUSBAR_TOKEN"{sent} {shlex.quote(str(url))}'
            )

    def stream(self, path: str, **parameters: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Token, kind and data of each server-sent event, until the appliance ends it. Raises as `request` does."""
        self._tell("GET", path, None, parameters)
        try:
            with self._client.stream(
                "GET",
                path,
                params=parameters,
                timeout=httpx.Timeout(TIMEOUT_SECONDS, read=STREAM_SECONDS),
            ) as response:
                if response.status_code >= 400:
                    response.read()
                    raise self._problem(response)
                found: dict[str, str] = {}
                for line in response.iter_lines():
                    if line:
                        name, _, value = line.partition(": ")
                        found[name] = value
                    elif found:
                        yield (
                            found.get("id", ""),
                            found.get("event", ""),
                            json.loads(found.get("data", "{}")),
                        )
                        found = {}
        except httpx.TransportError as error:
            raise Away(f"The appliance does not answer: {error}") from error

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **parameters: str
    ) -> dict[str, Any]:
        """Raises ApiError, or Away when there is no answer. A POST carries an Idempotency-Key, so it may be repeated."""
        self._tell(method, path, body, parameters)
        headers = {"Idempotency-Key": uuid.uuid4().hex} if method == "POST" else {}
        try:
            response = self._client.request(
                method, path, json=body, params=parameters or None, headers=headers
            )
        except httpx.TransportError as error:
            raise Away(f"The appliance does not answer: {error}") from error
        if response.status_code >= 500:
            raise Away(f"The appliance answered {response.status_code}; its log says why.")
        if response.status_code >= 400:
            raise self._problem(response)
        answer: dict[str, Any] = response.json() if response.content else {}
        return answer

    @staticmethod
    def _problem(response: httpx.Response) -> ApiError:
        try:
            content = response.json()
            detail, code = str(content["detail"]), str(content.get("code", ""))
            detail += "".join(
                f"\n  {e['pointer']}: {e['message']}" for e in content.get("errors", [])
            )
        except (ValueError, KeyError):
            content, detail, code = {}, f"The appliance answered {response.status_code}.", ""
        return ApiError(
            detail, _EXIT_BY_STATUS.get(response.status_code, EXIT_ERROR), code, content
        )

    def named(self, path: str, name: str) -> dict[str, Any]:
        """The one object of that name."""
        for row in self.items(path):
            if row["name"] == name:
                return row
        raise ApiError(f"There is no {name} among the {path}.", EXIT_NOT_FOUND)

    def items(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        """All pages."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            page = self.request(
                "GET", path, None, **parameters, **({"cursor": cursor} if cursor else {})
            )
            found += page["items"]
            cursor = page["next"]
            if not cursor:
                return found
