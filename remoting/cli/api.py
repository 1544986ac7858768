"""Client of the REST API: stored context, pinned CA, errors with exit codes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import ssl
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from remoting.cli.printable import printable

EXIT_ERROR, EXIT_USAGE, EXIT_NOT_FOUND, EXIT_CONFLICT, EXIT_DENIED, EXIT_TIMEOUT = 1, 2, 3, 4, 5, 6
AUTHORITIES_HEADER = "Busbar-Authorities"
"""Response header: SHA-256 of the certificates of the trusted CAs in PEM format."""
DEVICE_COOKIE = "__Host-busbar-device"
SECRETS = frozenset({"password", "new_password", "private_key", "passphrase", "sudo_password"})
TIMEOUT_SECONDS = 30.0
STREAM_READ_TIMEOUT_SECONDS = 60.0
"""The appliance sends a keep-alive on event streams every 15 s."""

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
    """Error reported by the appliance, or a usage error, with the exit code of the command.

    `code` is the appliance's error code, `fields` the whole problem document.
    """

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


class ApplianceUnreachable(ApiError):
    """The appliance did not respond or responded with a 5xx status. A retry may succeed."""


@dataclass(frozen=True)
class Context:
    url: str
    token: str
    ca_pem: str
    device: str = ""
    """Cookie by which the appliance knows this client again at the next login."""


def context_path() -> Path:
    if path := os.environ.get("BUSBAR_CONTEXT"):
        return Path(path)
    base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return base / "busbar" / "context.json"


def save_context(context: Context, path: Path | None = None) -> Path:
    """Write the context with mode 0600, because it contains a token. Return its path.

    A new file replaces the old one by a rename: no reader sees a part, and no file or link that
    another user made in the meantime is written.
    """
    target = path or context_path()
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, new = tempfile.mkstemp(prefix=f"{target.name}.", dir=target.parent)
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(context), file)
        os.replace(new, target)
    except OSError as error:
        raise ApiError(
            f"Cannot write the credentials to {target}: {error.strerror}."
            " Set BUSBAR_CONTEXT to a file that you can write."
        ) from None
    return target


def load_context() -> Context:
    """Return the context of BUSBAR_TOKEN, BUSBAR_URL and BUSBAR_CA, or else the stored one."""
    return environment_context() or stored_context()


def environment_context() -> Context | None:
    """Return the context that the environment names, or None without BUSBAR_TOKEN.

    Raises ApiError if URL or CA is missing.
    """
    token, url = os.environ.get("BUSBAR_TOKEN"), os.environ.get("BUSBAR_URL", "").rstrip("/")
    if not token:
        return None
    ca_path = os.environ.get("BUSBAR_CA", "")
    if not url.startswith("https://") or not ca_path:
        raise ApiError(
            "With BUSBAR_TOKEN set BUSBAR_URL to https://ADDRESS:8443, and BUSBAR_CA to a file "
            "with the appliance's CA certificate.",
            EXIT_USAGE,
        )
    try:
        return Context(url, token, Path(ca_path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ApiError(f"Cannot read BUSBAR_CA, {ca_path}: {error}.", EXIT_USAGE) from None


def stored_context() -> Context:
    path = context_path()
    try:
        content = json.loads(path.read_text())
        return Context(**{name: str(value) for name, value in content.items()})
    except OSError:
        reason = "Not signed in."
    except (ValueError, TypeError, AttributeError):
        reason = f"The credentials in {path} are damaged."
    raise ApiError(f"{reason} Sign in with: busbar login https://ADDRESS:8443", EXIT_DENIED)


def store_authorities(context: Context) -> None:
    """Store the CAs of the context, if the stored context is of the same appliance and token."""
    with contextlib.suppress(ApiError):
        stored = stored_context()
        if (stored.url, stored.token) == (context.url, context.token):
            save_context(replace(stored, ca_pem=context.ca_pem))


def fetch_ca(url: str) -> str:
    """Return the CA certificates of an appliance in PEM format, fetched without verification.

    Raises ApiError for anything but the URL of an appliance.
    """
    if not url.startswith("https://"):
        raise ApiError(f"The URL must be https://ADDRESS:PORT (was: {url}).", EXIT_USAGE)
    try:
        with httpx.Client(verify=False, trust_env=False, timeout=20) as unverified:  # noqa: S501
            pem = str(unverified.get(f"{url}/api/v1/ca").json()["ca_pem"])
        split_certificates(pem)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ApplianceUnreachable(
            f"Cannot connect to {url}: {error}. Check address, port and firewall."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise ApiError(f"There is no Busbar appliance at {url}.") from None
    return pem


def split_certificates(pem: str) -> dict[str, str]:
    """Return the certificates in PEM format by their SHA-256 fingerprints, in the same order.

    Raises ValueError if there is none.
    """
    found = x509.load_pem_x509_certificates(pem.encode())
    return {
        c.fingerprint(hashes.SHA256()).hex(): c.public_bytes(serialization.Encoding.PEM).decode()
        for c in found
    }


def known_device(url: str) -> str:
    """Return the device cookie of an earlier login at this appliance; empty without one."""
    try:
        context = stored_context()
    except ApiError:
        return ""
    return context.device if context.url == url else ""


def masked(body: object) -> object:
    """Return a request body for the terminal, without passwords and private keys."""
    if not isinstance(body, Mapping):
        return body
    return {key: "..." if key in SECRETS and value else value for key, value in body.items()}


class Api:
    """Connection to one appliance. Methods block; they raise ApiError or ApplianceUnreachable."""

    trace: Callable[[str], None] | None = None
    """Called with each request as a curl command."""

    def __init__(self, context: Context, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        try:
            self._tls = ssl.create_default_context(cadata=context.ca_pem)
        except (ssl.SSLError, ValueError):
            raise ApiError(
                "The CA certificate of the stored credentials is damaged. Sign in again with:"
                f" busbar login {context.url}",
                EXIT_DENIED,
            ) from None
        self._context, self._timeout_seconds = context, timeout_seconds
        headers = {"Authorization": f"Bearer {context.token}"} if context.token else {}
        self._client = httpx.Client(
            base_url=f"{context.url}/api/v1/",
            verify=self._tls,
            timeout=timeout_seconds,
            trust_env=False,
            headers=headers,
            cookies={DEVICE_COOKIE: context.device} if context.device else None,
        )

    def reconnected(self) -> Api:
        """Return another connection with the same credentials, for example after fork()."""
        return Api(self._context, self._timeout_seconds)

    @property
    def device(self) -> str:
        """The device cookie after a login."""
        return self._client.cookies.get(DEVICE_COOKIE) or ""

    def _trace(self, method: str, path: str, body: object, parameters: Mapping[str, str]) -> None:
        if Api.trace is not None:
            url = self._client.build_request(method, path, params=parameters or None).url
            data = (
                f" -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(masked(body)))}"
                if body is not None
                else ""
            )
            Api.trace(
                f'curl --cacert ca.pem -X {method} -H "Authorization: Bearer $BUSBAR_TOKEN"'
                f"{data} {shlex.quote(str(url))}"
            )

    def stream(self, path: str, **parameters: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield id, kind and data of each server-sent event until the appliance ends the stream.

        Raises ApiError or ApplianceUnreachable, as `request` does.
        """
        self._trace("GET", path, None, parameters)
        try:
            with self._client.stream(
                "GET",
                path,
                params=parameters,
                timeout=httpx.Timeout(TIMEOUT_SECONDS, read=STREAM_READ_TIMEOUT_SECONDS),
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
                            printable(json.loads(found.get("data", "{}"))),
                        )
                        found = {}
        except httpx.TransportError as error:
            raise ApplianceUnreachable(f"The appliance does not respond: {error}") from error

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **parameters: str
    ) -> dict[str, Any]:
        """Send a request and return the decoded response body, empty if there is none.

        A POST carries an Idempotency-Key, so the transport may repeat it safely.

        Raises:
            ApplianceUnreachable: there is no response, or one with a 5xx status.
            ApiError: the appliance refused the request.
        """
        response = self._respond(method, path, body, parameters)
        try:
            content: dict[str, Any] = printable(response.json()) if response.content else {}
        except ValueError:
            raise ApiError(f"{self._client.base_url} is not an appliance.") from None
        return content

    def json_lines(self, path: str, **parameters: str) -> list[tuple[int, str]]:
        """Return `sequence` and text of each line. Raises as `request` does."""
        text = self._respond("GET", path, None, parameters).text
        try:
            return [(int(json.loads(line)["sequence"]), line) for line in text.splitlines()]
        except (ValueError, KeyError, TypeError):
            raise ApiError(f"{self._client.base_url} is not an appliance.") from None

    def _respond(
        self, method: str, path: str, body: Mapping[str, Any] | None, parameters: Mapping[str, str]
    ) -> httpx.Response:
        self._trace(method, path, body, parameters)
        headers = {"Idempotency-Key": uuid.uuid4().hex} if method == "POST" else {}
        try:
            response = self._client.request(
                method, path, json=body, params=parameters or None, headers=headers
            )
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise ApplianceUnreachable(f"The appliance does not respond: {error}") from error
        if response.status_code >= 500:
            raise ApplianceUnreachable(
                f"The appliance responded with status {response.status_code}. See its log."
            )
        self._follow_authorities(response)
        if response.status_code >= 400:
            raise self._problem(response)
        return response

    def _follow_authorities(self, response: httpx.Response) -> None:
        """Trust the CAs that the appliance names now, and store them.

        The connection is verified: a CA that is trusted already vouches for the next one.
        """
        named = response.headers.get(AUTHORITIES_HEADER, "")
        if not named or named == hashlib.sha256(self._context.ca_pem.encode()).hexdigest():
            return
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError, ssl.SSLError):
            pem = str(self._client.get("ca").json()["ca_pem"])
            self._tls.load_verify_locations(cadata=pem)
            self._context = replace(self._context, ca_pem=pem)
            store_authorities(self._context)

    @staticmethod
    def _problem(response: httpx.Response) -> ApiError:
        try:
            content = printable(response.json())
            detail, code = str(content["detail"]), str(content.get("code", ""))
            detail += "".join(
                f"\n  {e['pointer']}: {e['message']}" for e in content.get("errors", [])
            )
        except (ValueError, KeyError):
            content, code = {}, ""
            detail = f"The appliance responded with status {response.status_code}."
        return ApiError(
            detail, _EXIT_BY_STATUS.get(response.status_code, EXIT_ERROR), code, content
        )

    def find_by_name(self, path: str, name: str) -> dict[str, Any]:
        """Return the object with this name from a collection. Raises ApiError if absent."""
        for row in self.items(path):
            if row["name"] == name:
                return row
        raise ApiError(f'"{name}" not found in {path}.', EXIT_NOT_FOUND)

    def items(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        """Return the items of all pages of a collection."""
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
