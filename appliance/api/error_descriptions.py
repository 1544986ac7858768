"""Meaning and remedy of each error code, for the error reference."""

from __future__ import annotations

from typing import Any, NamedTuple

from appliance.api.errors import STATUS, Code, problem_type


class Description(NamedTuple):
    meaning: str
    remedy: str


DESCRIPTIONS: dict[Code, Description] = {
    Code.INVALID: Description(
        "The request is malformed, or a value is not permitted. For validation errors, `errors` "
        "lists the JSON pointer and message of each field.",
        "Correct the values and send the request again.",
    ),
    Code.UNAUTHENTICATED: Description(
        "The request has no valid token: it is missing, expired or revoked, or user name and "
        "password are wrong.",
        "Sign in with `busbar login`, or send a valid token in the Authorization header.",
    ),
    Code.DENIED: Description(
        "None of your roles includes the required privilege, or the action is not permitted on "
        "this object.",
        "Ask an administrator for a role with the privilege that `detail` names.",
    ),
    Code.TOKEN_NETWORK: Description(
        "The token is not valid from the address of the client, because it was created for other "
        "networks. A WebSocket closes with 4401 and this code as its reason.",
        "Send the request from one of the token's networks, or create a token for yours.",
    ),
    Code.PASSWORD_CHANGE_REQUIRED: Description(
        "The password is valid once and must be replaced.",
        "Repeat the login with `new_password`; `busbar login` prompts for it.",
    ),
    Code.SECOND_FACTOR_REQUIRED: Description(
        "The password is right, and the account has a second factor. With `must_change_password` "
        "the repeated login also needs `new_password`.",
        "Repeat the login with `code`: of the authenticator app, or a recovery code.",
    ),
    Code.SECOND_FACTOR_SETUP_REQUIRED: Description(
        "The appliance requires a second factor of the account, which has none. A login returns a "
        "new secret in `secret`, `uri` and `qr`; other requests are refused until then.",
        "Add the secret to an authenticator app and repeat the login with its `code`; "
        "`busbar login` and the console do this.",
    ),
    Code.DEVICE_LOGIN_PENDING: Description(
        "No user has approved the sign-in of the device yet.",
        "Repeat the request after the time in `Retry-After`, in seconds, until it ends.",
    ),
    Code.FRESH_SIGN_IN_REQUIRED: Description(
        "The operation changes how you sign in, so a token does not suffice.",
        "Sign in again and repeat it within 10 minutes.",
    ),
    Code.NOT_FOUND: Description(
        "The object does not exist, or you have no permission to see it.",
        "Check the id or name. List the objects of the collection.",
    ),
    Code.CONFLICT: Description(
        "The state of the object does not permit the operation, or a name or value is taken.",
        "Read the object again; `detail` states the conflict.",
    ),
    Code.IN_USE: Description(
        "Other objects depend on the object. `blockers` lists allocations, if any.",
        "Release, move or delete the dependent objects first.",
    ),
    Code.NOT_ACTIVE: Description(
        "The allocation is not active, so it has no tickets.",
        "Wait until its state is `active`, for example with `?wait=`.",
    ),
    Code.TOKEN_SPENT: Description(
        "The enrolment token has expired or has been used.",
        "Create a new one with `busbar node token`.",
    ),
    Code.NODE_UNREACHABLE: Description(
        "The agent of the node is not connected to the appliance.",
        "Check the node, its agent (`systemctl status busbar-agent`) and the network.",
    ),
    Code.NODE_LOCKED: Description(
        "The node is locked, because its identity may exist twice. Its agent cannot connect, and "
        "no tickets are issued for it.",
        "Find the second copy, then run `busbar node unlock NODE`, or enrol the machine again.",
    ),
    Code.HOST_KEY_UNCONFIRMED: Description(
        "The SSH host key of the machine has not been confirmed. `host_key_sha256` and "
        "`host_key_type` contain the key.",
        "Compare the fingerprint with the machine's and repeat the request with `host_key_sha256`.",
    ),
    Code.HOST_KEY_CHANGED: Description(
        "The SSH host key of the machine differs from the confirmed one.",
        "If the machine was reinstalled, delete the old key with `busbar node forget-key`. "
        "Otherwise, investigate: the connection may be intercepted.",
    ),
    Code.ADDRESS_NOT_ALLOWED: Description(
        "The appliance does not connect to this address over SSH: it is a loopback, link-local or "
        "multicast address, or outside of `BUSBAR_SSH_NETWORKS`.",
        "Check the address, or let an administrator add its network to `BUSBAR_SSH_NETWORKS`.",
    ),
    Code.HOST_UNREACHABLE: Description(
        "The SSH connection to the machine failed.",
        "Check address, port, firewall and the SSH server of the machine.",
    ),
    Code.SIGN_IN_REFUSED: Description(
        "The machine rejected the SSH credentials or the sudo password.",
        "Check user name, key or password, and the user's permission to use sudo.",
    ),
    Code.PREFLIGHT_FAILED: Description(
        "The machine does not meet a requirement of a node. The task result lists all checks.",
        "Apply the fix that the failed check names and repeat the enrolment.",
    ),
    Code.INSTALLATION_FAILED: Description(
        "The installation of the agent failed and was rolled back.",
        "See the task log (`busbar task log ID`), correct the cause and repeat the enrolment.",
    ),
    Code.MAIL_FAILED: Description(
        "The mail server of the settings did not accept the message. `detail` has its reply.",
        "Correct the section `mail` of the settings, then send a test message again.",
    ),
    Code.NOT_SUPPORTED: Description(
        "The object or its software does not support the operation.",
        "`detail` names the requirement, for example a newer agent.",
    ),
    Code.UNSATISFIABLE: Description(
        "The pool has too few registered GPUs for the request, or a limit is too low, also when "
        "nothing else runs.",
        "Change the request, or repeat it with `allow_pending: true` to wait until GPUs are "
        "added or limits are raised.",
    ),
    Code.GONE: Description(
        "The requested changes have been discarded from the server's buffer.",
        "Reload the objects and connect to the stream without a resume position.",
    ),
    Code.STALE: Description(
        "The object has changed since the version named in `If-Match`.",
        "Read the object again and repeat the change with its current `ETag`.",
    ),
    Code.IDEMPOTENCY_MISMATCH: Description(
        "The idempotency key was used before with a different request.",
        "Use a new key for each new request; repeat a request without any change.",
    ),
    Code.TOO_MANY_ATTEMPTS: Description(
        "Too many failed logins or requests of new passwords of this client, or at this account by "
        "unknown clients.",
        "Wait for the time in `Retry-After`, in seconds.",
    ),
    Code.DIRECTORY_UNAVAILABLE: Description(
        "The directory (LDAP) that checks the password of the account does not answer in time. "
        "Accounts of the appliance itself can sign in.",
        "Try again later. The appliance's log has the reason.",
    ),
    Code.PROVIDER_UNAVAILABLE: Description(
        "The identity provider does not answer in time, or is not configured as its settings say.",
        "Try again later, or sign in with a password. The appliance's log has the reason.",
    ),
    Code.BUSY: Description(
        "The write queue is full, another process changes the same objects, or a request with the "
        "same `Idempotency-Key` is in progress. This request changed nothing; the other one with "
        "its key may still do so. Or the database does not answer: then a change may have been "
        "made all the same.",
        "Repeat the request after the time in `Retry-After`, in seconds, with the same "
        "`Idempotency-Key`: if the other request succeeds, its response is returned.",
    ),
    Code.DISK_FULL: Description(
        "The disk of the appliance is full, or nearly full, so that nothing is granted. The "
        "request changed nothing. Running programs and releases go on.",
        "Let an administrator free space: `/readyz` shows `disk`, and the limits are "
        "`disk_low_mib` and `disk_full_mib` in the section `appliance` of the settings.",
    ),
    Code.INTERNAL: Description(
        "The appliance failed to process the request.",
        "See the appliance's log for the traceback and report it.",
    ),
}


def problem_example(code: Code, status: int | None = None) -> dict[str, Any]:
    """Return a problem document with a code."""
    return {
        "type": problem_type(code),
        "title": code.replace("_", " "),
        "status": status or STATUS[code],
        "code": str(code),
        "detail": first_sentence(code),
    }


def first_sentence(code: Code) -> str:
    return DESCRIPTIONS[code].meaning.split(". ")[0].rstrip(".") + "."
