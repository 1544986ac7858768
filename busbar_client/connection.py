"""Connection to one appliance: TLS with its CA, credentials, errors, pages and streams.

httpx is imported by the first connection: commands that make none start without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from typing import Self

    import httpx

Json = dict[str, Any]
AUTHORITIES_HEADER = "Busbar-Authorities"
"""Response header: SHA-256 of the certificates of the trusted CAs in PEM format."""
TIMEOUT_SECONDS = 30.0
BUSY_SECONDS = 60.0
"""Time for repetitions of a request whose response was lost, while the appliance is busy with it.
A response of the last one that has begun to arrive is read to its end."""
MAX_PAUSE_SECONDS = 5.0
STREAM_READ_TIMEOUT_SECONDS = 60.0
"""The appliance sends a keep-alive on event streams every 15 s."""
TOKEN = re.compile(r"[!-~]+")
OTHER_SERVER = re.compile(r"[^/?#]*:|\s*//|.*\\", re.DOTALL)
"""Starts of paths that may name a scheme or a host."""


class ClientError(Exception):
    """A request failed."""


class Problem(ClientError):
    """The appliance refused a request (RFC 9457). `code` is stable."""

    def __init__(self, detail: str, status: int, code: str = "", fields: Json | None = None):
        super().__init__(detail)
        self.status, self.code, self.fields = status, code, fields or {}


class Unreachable(ClientError):
    """The appliance did not respond, or responded with a 5xx status. A retry may succeed."""

    def __init__(self, detail: str, code: str = ""):
        super().__init__(detail)
        self.code = code


class Connection:
    """Requests to an appliance. Methods block. Not thread-safe while it follows a new CA.

    `ca_pem` has the certificates of the appliance's CA; no other server is trusted. Subclasses
    replace `remedy`, `problem`, `unreachable`, `misused`, `decoded` and `authorities_changed`.
    """

    repeatable: ClassVar[re.Pattern[str]] = re.compile("(?!)")
    """Paths of the POSTs that honour an Idempotency-Key."""
    remedy: ClassVar[str] = ""
    """Sentence behind the error of a request without a response."""

    def __init__(
        self, url: str, token: str, ca_pem: str, *, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        """Raises ssl.SSLError or ValueError for a CA that is not in PEM format.

        ClientError for a token that no header can have.
        """
        import httpx

        if not ca_pem:
            raise ValueError("ca_pem is empty.")  # Python would trust the CAs of the system
        self._tls = ssl.create_default_context(cadata=ca_pem)
        self._ca_pem = ca_pem
        self._client = httpx.Client(
            base_url=f"{url}/api/v1/",
            verify=self._tls,
            timeout=timeout_seconds,
            trust_env=False,
            headers={"Authorization": f"Bearer {self._checked(token)}"} if token else {},
        )

    def _checked(self, token: str) -> str:
        """Return the token without blanks around it. Errors of the header would show the token."""
        stripped = token.strip()
        if not TOKEN.fullmatch(stripped):
            raise self.misused("The token has a character that no token has.")
        return stripped

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request and return the decoded body, `{}` if there is none.

        A POST that honours an Idempotency-Key carries a new one, unless `headers` has it, and is
        repeated once if there is no response, and while the repetition finds the first request
        in progress, for BUSY_SECONDS at most. Raises Problem or Unreachable, or ClientError for a
        path that names another server.
        """
        response = self.respond(method, path, body, query or {}, headers or {})
        try:
            return self.decoded(response.json()) if response.content else {}
        except ValueError:
            raise self.problem(f"{self._client.base_url} is not an appliance.") from None

    def respond(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, Any],
        headers: Mapping[str, str],
    ) -> httpx.Response:
        """Send a request and return the response of an operation that succeeded.

        Raises as `send` does.
        """
        import httpx

        path = self.own_path(path)
        has_key = method == "POST" and self.repeatable.fullmatch(path) is not None
        # Operations of a bulk request have keys of their own, and none if they create nothing.
        repeats = has_key and (path != "bulk" or bool((body or {}).get("atomic")))
        own = {"Idempotency-Key": uuid.uuid4().hex} if has_key else {}
        request = partial(
            self._client.request,
            method,
            path,
            json=body,
            params=texts(query) or None,
            headers={**own, **headers},
        )
        try:
            response = self._request_twice(request) if repeats else request()
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise self.silent(error) from error
        if response.status_code >= 500:
            raise self._unreachable_of(response)
        self._follow_authorities(response)
        if response.status_code >= 400:
            raise self._problem_of(response)
        return response

    def _request_twice(self, request: Callable[..., httpx.Response]) -> httpx.Response:
        """Send a request, and repeat it if its response was lost: its key stands for one effect."""
        import httpx

        try:
            return request()
        except httpx.ConnectTimeout:
            raise
        except httpx.TransportError:
            return self._repeat(request)

    def _repeat(self, request: Callable[..., httpx.Response]) -> httpx.Response:
        """Repeat a request whose response was lost: the appliance may still be working on it."""
        end = time.monotonic() + BUSY_SECONDS
        usual = self._client.timeout.read or BUSY_SECONDS
        while True:
            left = end - time.monotonic()
            response = request(timeout=max(1.0, min(usual, left)))
            pause = response.headers.get("Retry-After", "")
            if response.status_code != 503 or not pause.isdecimal():
                return response
            seconds = min(float(pause), MAX_PAUSE_SECONDS)
            if time.monotonic() + seconds >= end:
                return response
            time.sleep(seconds)

    def events(self, path: str, query: Mapping[str, Any]) -> Iterator[tuple[str, str, Json]]:
        """Yield id, kind and data of each server-sent event until the appliance ends the stream.

        Raises as `send` does.
        """
        import httpx

        path = self.own_path(path)
        timeout = httpx.Timeout(TIMEOUT_SECONDS, read=STREAM_READ_TIMEOUT_SECONDS)
        try:
            with self._client.stream("GET", path, params=texts(query), timeout=timeout) as response:
                if response.status_code >= 400:
                    response.read()
                    raise self._problem_of(response)
                yield from self._decoded_events(response.iter_lines())
        except httpx.TransportError as error:
            raise self.silent(error) from error

    def own_path(self, path: str) -> str:
        """Return the path if it can only be one of the appliance.

        httpx sends a request for an absolute URL to its host, with the token.
        """
        if OTHER_SERVER.match(path):
            raise self.misused(
                f"{path[:60]} is no path of the appliance: name it like nodes or pools/ID, without"
                " scheme, host and backslash."
            )
        return path

    def _decoded_events(self, lines: Iterator[str]) -> Iterator[tuple[str, str, Json]]:
        found: dict[str, str] = {}
        for line in lines:
            if line:
                name, _, value = line.partition(": ")
                found[name] = value
            elif found:
                data = self.decoded(json.loads(found.get("data", "{}")))
                yield found.get("id", ""), found.get("event", ""), data
                found = {}

    def _follow_authorities(self, response: httpx.Response) -> None:
        """Trust the CAs that the appliance names now.

        The connection is verified: a CA that is trusted already vouches for the next one.
        """
        named = response.headers.get(AUTHORITIES_HEADER, "")
        if not named or named == hashlib.sha256(self._ca_pem.encode()).hexdigest():
            return
        import httpx

        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError, ssl.SSLError):
            pem = str(self._client.get("ca").json()["ca_pem"])
            self._tls.load_verify_locations(cadata=pem)
            self._ca_pem = pem
            self.authorities_changed(pem)

    def _unreachable_of(self, response: httpx.Response) -> Exception:
        try:
            content = self.decoded(response.json())
            return self.unreachable(str(content["detail"]), str(content.get("code", "")))
        except (ValueError, KeyError, TypeError):
            text = f"The appliance responded with status {response.status_code}. See its log."
            return self.unreachable(text)

    def _problem_of(self, response: httpx.Response) -> Exception:
        status = response.status_code
        try:
            content = self.decoded(response.json())
            detail = str(content["detail"]) + "".join(
                f"\n  {e['pointer']}: {e['message']}" for e in content.get("errors", [])
            )
            return self.problem(detail, status, str(content.get("code", "")), content)
        except (ValueError, KeyError, TypeError):
            return self.problem(f"The appliance responded with status {status}.", status)

    def problem(
        self, detail: str, status: int = 0, code: str = "", fields: Json | None = None
    ) -> Exception:
        """Return the error of a refused request."""
        return Problem(detail, status, code, fields)

    def unreachable(self, detail: str, code: str = "") -> Exception:
        """Return the error of a request without a response, or with a 5xx status."""
        return Unreachable(detail, code)

    def silent(self, error: Exception) -> Exception:
        """Return the error of a request without a response."""
        url = str(self._client.base_url).removesuffix("/api/v1/")
        found = str(error).removesuffix(".")  # some of httpx have a full stop
        text = f"The appliance at {url} does not respond: {found}"
        if "CERTIFICATE_VERIFY_FAILED" in found:
            text = f"The certificate of {url} is not trusted: {found}"
        return self.unreachable(f"{text}.{self.remedy}")

    def misused(self, detail: str) -> Exception:
        """Return the error of a request that is not sent."""
        return ClientError(detail)

    def decoded(self, content: Any) -> Any:
        """Return the decoded JSON of a response as callers get it."""
        return content

    def authorities_changed(self, ca_pem: str) -> None:
        """Called when the appliance has named other CAs, which are trusted from now on."""


def texts(query: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters of a query that have a value, as texts."""
    return {name: text_of(value) for name, value in query.items() if value is not None}


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
