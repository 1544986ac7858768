"""Checks of `busbar doctor` at the appliance: port, certificate, clock, account and versions."""

from __future__ import annotations

import re
import socket
import ssl
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from nodes.version import AGENT_VERSION
from remoting.cli import api as rest
from remoting.cli.doctor_finding import CHECK_PORT, FAILED, OK, WARNING, Finding, failed
from remoting.cli.doctor_network import (
    CONNECT_SECONDS,
    Attempt,
    connect,
    reason,
    shown_address,
    shown_seconds,
)
from remoting.cli.doctor_projects import projects_finding

ANSWER_SECONDS = 10.0
CLOCK_WARNING_SECONDS = 30.0
DATE_SECONDS = 2.0
"""Dates have whole seconds, and the response takes time."""
END_WARNING = timedelta(days=1)
NOT_VALID_NOW = (9, 10)
"""Codes of OpenSSL for a certificate that is not yet valid, or no longer."""
OTHER_NAME = (62, 64)
TOKEN = re.compile(r"bb_([0-9a-f]{32})\.")
"""API tokens begin with their id."""
SIGN_IN = "Sign in again with: busbar login {}"
SET_CLOCK = "Set the clock of this machine: timedatectl set-ntp true"
CHECK_NAME = "Check the name, and the name servers of this machine: getent hosts "


@dataclass(frozen=True)
class Answer:
    """The first answer of the appliance, which may still be another machine."""

    authorities: dict[str, str]
    """Its CA certificates by their fingerprints."""
    seconds_ahead: float | None
    """Its clock less that of this machine; None if it does not tell."""


def appliance_findings(context: rest.Context) -> Iterator[Finding]:
    """Yield the findings until one fails on which the next ones depend. Blocks 30 s at most."""
    port = port_finding(context.url)
    yield port
    if port.state == FAILED:
        return
    try:
        answer = Attempt(lambda: ask(context.url)).result(ANSWER_SECONDS)
    except (rest.ApiError, TimeoutError) as error:
        yield no_appliance(context.url, error)
        return
    certificate = certificate_finding(context, answer)
    yield certificate
    yield clock_finding(answer.seconds_ahead)
    if certificate.state != FAILED:
        yield from account_findings(context)


def no_appliance(url: str, error: Exception) -> Finding:
    fix = (
        "Check address and port (those of the console, 8443 by default), and ask an administrator"
        " whether the appliance works."
    )
    if isinstance(error, rest.ApiError):
        return failed("certificate", error, fix, unreachable=fix)
    text = f"{url} answers no request within {ANSWER_SECONDS:.0f} s."
    return Finding("certificate", FAILED, text, fix)


def host_and_port(url: str) -> tuple[str, int]:
    """Return the address in a URL. Raises ValueError for one without."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError(url)
    return parts.hostname, parts.port or 443


def port_finding(url: str) -> Finding:
    name = "appliance port"
    try:
        host, port = host_and_port(url)
    except ValueError:
        fix = "Sign in again with: busbar login https://ADDRESS:8443"
        return Finding(name, FAILED, f"The credentials name no address: {url!r}.", fix)
    address = shown_address(host, port)
    try:
        seconds = Attempt(lambda: connect(host, port)).result(2 * CONNECT_SECONDS)
    except OSError as error:
        is_name = isinstance(error, socket.gaierror)
        fix = f"{CHECK_NAME}{host}" if is_name else CHECK_PORT
        return Finding(name, FAILED, f"{address} {reason(error)}.", fix)
    return Finding(name, OK, f"{address} reached in {shown_seconds(seconds)}.")


def ask(url: str) -> Answer:
    """Ask for the CA certificates without verification. Raises ApiError."""
    response = rest.fetch_unverified(url)
    authorities = rest.split_certificates(rest.ca_in(response, url))
    try:
        date = parsedate_to_datetime(response.headers["date"])
        ahead = (date - datetime.now(timezone.utc)).total_seconds()
    except (KeyError, ValueError, TypeError):
        ahead = None
    return Answer(authorities, ahead)


def certificate_finding(context: rest.Context, answer: Answer) -> Finding:
    name = "certificate"
    try:
        trusted = rest.split_certificates(context.ca_pem)
        tls = ssl.create_default_context(cadata=context.ca_pem)
    except ValueError:  # ssl.SSLError is one as well
        fix = f"Sign in again with: busbar login {context.url}"
        return Finding(name, FAILED, "The CA certificate of the credentials is damaged.", fix)
    host, port = host_and_port(context.url)
    try:
        with (
            socket.create_connection((host, port), CONNECT_SECONDS) as connection,
            tls.wrap_socket(connection, server_hostname=host),
        ):
            return Finding(name, OK, f"Issued by the trusted CA, SHA-256 {next(iter(trusted))}.")
    except ssl.SSLCertVerificationError as error:
        fix = fix_of_certificate(error.verify_code, context.url, answer, trusted)
        return Finding(name, FAILED, f"Not trusted: {error.verify_message}.", fix)
    except OSError as error:
        return Finding(name, FAILED, f"The connection was cut: {error}.", CHECK_PORT)


def fix_of_certificate(code: int, url: str, answer: Answer, trusted: dict[str, str]) -> str:
    if code in NOT_VALID_NOW:
        return f"{SET_CLOCK}. If it is right, ask an administrator to renew the certificate."
    if code in OTHER_NAME:
        return (
            "Sign in with the address of the appliance that `busbar install-line` prints there, or"
            " ask an administrator to add this one with --advertise."
        )
    # No line that can be pasted has a fingerprint which only the answer vouches for.
    sent, expected = next(iter(answer.authorities)), next(iter(trusted))
    return (
        f"Ask an administrator for the fingerprint of the CA. If it is that of the answer, {sent},"
        f" sign in again: busbar login {url} --ca-sha256 FINGERPRINT  If it is still {expected},"
        " another machine answers at this address: send it no password."
    )


def clock_finding(seconds_ahead: float | None) -> Finding:
    if seconds_ahead is None:
        return Finding("clock", WARNING, "The appliance tells no time.", SET_CLOCK)
    off = abs(seconds_ahead)
    if off < DATE_SECONDS:
        return Finding("clock", OK, "Equal to that of the appliance.")
    found = f"{off:.0f} s {'behind' if seconds_ahead > 0 else 'ahead of'} the appliance."
    if off <= CLOCK_WARNING_SECONDS:
        return Finding("clock", OK, found)
    return Finding("clock", WARNING, found, f"{SET_CLOCK}, or that of the appliance.")


def account_findings(context: rest.Context) -> Iterator[Finding]:
    try:
        api = rest.Api(context, timeout_seconds=ANSWER_SECONDS)
    except rest.ApiError as error:
        yield failed("sign-in", error, SIGN_IN.format(context.url))
        return
    sign_in = sign_in_finding(api, context)
    yield sign_in
    if sign_in.state != FAILED:
        yield projects_finding(api)
        yield version_finding(api)


def sign_in_finding(api: rest.Api, context: rest.Context) -> Finding:
    name, again = "sign-in", SIGN_IN.format(context.url)
    try:
        me = api.request("GET", "me")
        end = end_of_token(api, context.token)
    except rest.ApiError as error:
        return failed(name, error, again)
    if me["must_change_password"] or me["must_set_up_second_factor"]:
        missing = "a password of its own" if me["must_change_password"] else "a second factor"
        return Finding(name, FAILED, f"The account {me['username']} needs {missing}.", again)
    found = f"Signed in as {me['username']}"
    if end is None:
        return Finding(name, OK, f"{found}.")
    found += f" until {end:%Y-%m-%d %H:%M} UTC."
    if end - datetime.now(timezone.utc) > END_WARNING:
        return Finding(name, OK, found)
    fix = f"For programs that run longer: busbar token create. {again}"
    return Finding(name, WARNING, found, fix)


def end_of_token(api: rest.Api, token: str) -> datetime | None:
    """Return when a token ends; None if it does not, or may not see itself."""
    if (found := TOKEN.match(token)) is None:
        return None
    try:
        row = api.request("GET", f"tokens/{uuid.UUID(hex=found[1])}")
    except rest.ApplianceUnreachable:
        raise
    except rest.ApiError:
        return None
    text = row["expires_at"]
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def version_finding(api: rest.Api) -> Finding:
    name, client = "versions", f"Client {AGENT_VERSION}"
    try:
        version = api.request("GET", "appliance")["version"]
    except rest.ApplianceUnreachable as error:
        return failed(name, error)
    except rest.ApiError:
        return Finding(name, OK, f"{client}; this account may not see that of the appliance.")
    if version == AGENT_VERSION:
        return Finding(name, OK, f"{client}, appliance {version}.")
    fix = "Install the client of the appliance, with the line that `busbar install-line` prints."
    return Finding(name, WARNING, f"{client} may not fit appliance {version}.", fix)
