"""Client of the REST API: stored context, pinned CA, errors with exit codes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbar_client import Client
from busbar_client.connection import TIMEOUT_SECONDS, texts
from remoting.cli.errors import (  # noqa: F401 - the commands use some of them as rest.NAME
    EXIT_CONFLICT,
    EXIT_DENIED,
    EXIT_ERROR,
    EXIT_NOT_FOUND,
    EXIT_TIMEOUT,
    EXIT_USAGE,
    ApiError,
    ApplianceUnreachable,
    exit_code_of,
)
from remoting.cli.printable import printable

if TYPE_CHECKING:
    import httpx

PEM_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
DEVICE_COOKIE = "__Host-busbar-device"
SECRETS = frozenset(
    {
        "password",
        "new_password",
        "code",
        "device_code",
        "private_key",
        "passphrase",
        "sudo_password",
    }
)

NAME_FILTERS = {
    "users": "username",
    **dict.fromkeys(
        ("alarm-definitions", "departments", "groups", "nodes", "pools", "projects", "sites"),
        "name",
    ),
}
"""Collections to the filter by the name of an object."""
CREDENTIAL_VARIABLES = ("BUSBAR_URL", "BUSBAR_TOKEN", "BUSBAR_CA")


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


def delete_context() -> None:
    """Delete the stored credentials, and the command's own folder unless it has other files."""
    path = context_path()
    path.unlink(missing_ok=True)
    if not os.environ.get("BUSBAR_CONTEXT"):
        with contextlib.suppress(OSError):
            path.parent.rmdir()


def load_context() -> Context:
    """Return the context of BUSBAR_TOKEN, BUSBAR_URL and BUSBAR_CA, or else the stored one."""
    return environment_context() or stored_context()


def without_path(url: str) -> str:
    """Return scheme, host and port of a URL. One that comes from the browser also has a path."""
    scheme, separator, rest = url.partition("://")
    return scheme + separator + re.split("[/?#]", rest, maxsplit=1)[0]


def environment_context() -> Context | None:
    """Return the context of the environment, or None without BUSBAR_TOKEN and BUSBAR_URL.

    Raises ApiError if one of the three variables is missing or wrong.
    """
    values = {name: os.environ.get(name, "") for name in CREDENTIAL_VARIABLES}
    url, token, ca_path = values.values()
    url = without_path(url)
    if not token and not url:
        return None
    if missing := [name for name, value in values.items() if not value]:
        raise ApiError(
            "BUSBAR_URL, BUSBAR_TOKEN and BUSBAR_CA are needed together; not set:"
            f" {', '.join(missing)}. Set BUSBAR_URL to https://ADDRESS:8443, BUSBAR_TOKEN to a"
            " token and BUSBAR_CA to a file with the appliance's CA certificate, or unset all to"
            " use the stored credentials.",
            EXIT_USAGE,
        )
    if not url.startswith("https://"):
        text = f"The scheme of BUSBAR_URL must be https (was: {url}). Set https://ADDRESS:8443"
        raise ApiError(text, EXIT_USAGE)
    try:
        pem = Path(ca_path).read_text()
        split_certificates(pem)
    except OSError as error:
        text = f"Cannot read BUSBAR_CA, {ca_path}: {error.strerror}."
        raise ApiError(text, EXIT_USAGE) from None
    except ValueError:  # also bytes that are no text
        raise ApiError(
            f"BUSBAR_CA, {ca_path}, is no certificate in PEM format. Fetch it with:"
            f" curl -fsSk {url}/install/ca.pem -o ca.pem  and compare its fingerprint with that of"
            " the appliance: openssl x509 -in ca.pem -outform DER | sha256sum",
            EXIT_USAGE,
        ) from None
    return Context(url, token, pem)


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
    return ca_in(fetch_unverified(url), url)


def fetch_unverified(url: str) -> httpx.Response:
    """Return the response with the CA certificates. Raises ApiError if there is none."""
    if not url.startswith("https://"):
        raise ApiError(f"The URL must be https://ADDRESS:PORT (was: {url}).", EXIT_USAGE)
    import httpx

    try:
        with httpx.Client(verify=False, trust_env=False, timeout=20) as unverified:  # noqa: S501
            return unverified.get(f"{url}/api/v1/ca")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ApplianceUnreachable(
            f"Cannot connect to {url}: {without_stop(error)}. Check address, port and firewall."
        ) from None


def without_stop(error: Exception) -> str:
    """Return the text of an error as the end of a sentence: some of httpx have a full stop."""
    return str(error).removesuffix(".")


def ca_in(response: httpx.Response, url: str) -> str:
    """Return the CA certificates of a response. Raises ApiError if it is of another server."""
    try:
        pem = str(response.json()["ca_pem"])
        split_certificates(pem)
    except (ValueError, KeyError, TypeError):
        raise ApiError(f"There is no Busbar appliance at {url}.") from None
    return pem


def split_certificates(pem: str) -> dict[str, str]:
    """Return the certificates in PEM format by their SHA-256 fingerprints, in the same order.

    Raises ValueError if there is none.
    """
    found = [ssl.PEM_cert_to_DER_cert(text) for text in PEM_CERTIFICATE.findall(pem)]
    if not found:
        raise ValueError("There is no certificate.")
    try:
        ssl.create_default_context(cadata=pem)
    except ssl.SSLError as error:
        raise ValueError(f"A certificate is damaged: {error}") from None
    return {hashlib.sha256(der).hexdigest(): ssl.DER_cert_to_PEM_cert(der) for der in found}


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


def in_ascii(row: object) -> str:
    """Return JSON in one line without characters beyond ASCII and without control characters."""
    return json.dumps(row, separators=(",", ":")).replace("\x7f", "\\u007f")


@contextlib.contextmanager
def refused_values() -> Iterator[None]:
    """Raise ApiError for values that no request can carry, such as an infinite number."""
    try:
        yield
    except UnicodeEncodeError:
        text = "A value has bytes that are no UTF-8 text. Check the encoding of the terminal."
        raise ApiError(text, EXIT_USAGE) from None
    except ValueError as error:
        raise ApiError(f"A value cannot be sent: {error}.", EXIT_USAGE) from None


class Api(Client):
    """Connection of the commands. Methods block; they raise ApiError or ApplianceUnreachable."""

    remedy = " Find the cause with: busbar doctor"
    trace: Callable[[str], None] | None = None
    """Called with each request as a curl command."""

    def __init__(self, context: Context, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        try:
            super().__init__(
                context.url, context.token, context.ca_pem, timeout_seconds=timeout_seconds
            )
        except (ssl.SSLError, ValueError):
            raise ApiError(
                "The CA certificate of the stored credentials is damaged. Sign in again with:"
                f" busbar login {context.url}",
                EXIT_DENIED,
            ) from None
        self._context, self._timeout_seconds = context, timeout_seconds
        if context.device:
            self._client.cookies.set(DEVICE_COOKIE, context.device)

    def reconnected(self) -> Api:
        """Return another connection with the same credentials, for example after fork()."""
        return Api(self._context, self._timeout_seconds)

    @property
    def device(self) -> str:
        """The device cookie after a login: a new one, or else the one that was sent."""
        known = self._context.device
        found = (c.value for c in self._client.cookies.jar if c.name == DEVICE_COOKIE)
        return next((value for value in found if value and value != known), known)

    def respond(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, Any],
        headers: Mapping[str, str],
    ) -> httpx.Response:
        with refused_values():
            self._trace(method, path, body, query)
            return super().respond(method, path, body, query, headers)

    def _trace(self, method: str, path: str, body: object, query: Mapping[str, Any]) -> None:
        if Api.trace is not None:
            request = self._client.build_request(
                method, self.own_path(path), params=texts(query) or None
            )
            data = (
                f" -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(masked(body)))}"
                if body is not None
                else ""
            )
            Api.trace(
                f'curl --cacert ca.pem -X {method} -H "Authorization: Bearer $BUSBAR_TOKEN"'
                f"{data} {shlex.quote(str(request.url))}"
            )

    def stream(self, path: str, /, **parameters: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield id, kind and data of each server-sent event until the appliance ends the stream.

        Raises ApiError or ApplianceUnreachable, as `request` does.
        """
        self._trace("GET", path, None, parameters)
        return self.events(path, parameters)

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, /, **parameters: str
    ) -> dict[str, Any]:
        """Send a request and return the decoded response body, empty if there is none.

        A POST that honours an Idempotency-Key is repeated once if there is no response.

        Raises:
            ApplianceUnreachable: there is no response, or one with a 5xx status.
            ApiError: the appliance refused the request.
        """
        content: dict[str, Any] = self.send(method, path, body, query=parameters)
        return content

    def json_lines(self, path: str, /, **parameters: str) -> list[tuple[int, str]]:
        """Return `sequence` and text of each line. Raises as `request` does.

        The text is equal JSON in ASCII: names of strangers in it control no terminal. Lines end
        with a line feed only; a name may contain other ends of lines.
        """
        lines = self.respond("GET", path, None, parameters, {}).text.split("\n")
        try:
            rows = [json.loads(line) for line in lines if line]
            return [(int(row["sequence"]), in_ascii(row)) for row in rows]
        except (ValueError, KeyError, TypeError):
            raise ApiError(f"{self._client.base_url} is not an appliance.") from None

    def problem(
        self, detail: str, status: int = 0, code: str = "", fields: dict[str, Any] | None = None
    ) -> Exception:
        if code == "unauthenticated" and self._context.token:
            detail = self._invalid_token()
        return ApiError(detail, exit_code_of(status), code, fields)

    def _invalid_token(self) -> str:
        ended = "is not valid: it is wrong, or it has expired or was revoked."
        if self._context.token == os.environ.get("BUSBAR_TOKEN"):
            return (
                f"The token in BUSBAR_TOKEN {ended} Set it to one of: busbar token create, or unset"
                " it to use the stored credentials."
            )
        return f"The stored token {ended} Sign in again with: busbar login {self._context.url}"

    def unreachable(self, detail: str, code: str = "") -> Exception:
        return ApplianceUnreachable(detail, code=code)

    def misused(self, detail: str) -> Exception:
        return ApiError(detail, EXIT_USAGE)

    def decoded(self, content: Any) -> Any:
        return printable(content)

    def authorities_changed(self, ca_pem: str) -> None:
        self._context = replace(self._context, ca_pem=ca_pem)
        store_authorities(self._context)

    def find_by_name(self, path: str, name: str) -> dict[str, Any]:
        """Return the object with this name from a collection. Raises ApiError if absent."""
        filters = {NAME_FILTERS[path]: name} if path in NAME_FILTERS else {}
        for row in self.items(path, **filters):
            if row["name"] == name:
                return row
        raise ApiError(f'"{name}" not found in {path}.', EXIT_NOT_FOUND)

    def items(self, path: str, /, **parameters: str) -> list[dict[str, Any]]:
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
