"""Errors of services and their codes. Codes are stable; details state what to do."""

from __future__ import annotations

import enum


class Code(enum.StrEnum):
    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    DENIED = "denied"
    TOKEN_NETWORK = "token_network"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    IN_USE = "in_use"
    GONE = "gone"
    STALE = "stale"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    PASSWORD_CHANGE_REQUIRED = "password_change_required"
    SECOND_FACTOR_REQUIRED = "second_factor_required"
    SECOND_FACTOR_SETUP_REQUIRED = "second_factor_setup_required"
    DEVICE_LOGIN_PENDING = "device_login_pending"
    FRESH_SIGN_IN_REQUIRED = "fresh_sign_in_required"
    TOO_MANY_ATTEMPTS = "too_many_attempts"
    TOKEN_SPENT = "token_spent"
    NOT_ACTIVE = "not_active"
    NODE_UNREACHABLE = "node_unreachable"
    NODE_LOCKED = "node_locked"
    HOST_KEY_UNCONFIRMED = "host_key_unconfirmed"
    HOST_KEY_CHANGED = "host_key_changed"
    ADDRESS_NOT_ALLOWED = "address_not_allowed"
    HOST_UNREACHABLE = "host_unreachable"
    SIGN_IN_REFUSED = "sign_in_refused"
    PREFLIGHT_FAILED = "preflight_failed"
    INSTALLATION_FAILED = "installation_failed"
    MAIL_FAILED = "mail_failed"
    NOT_SUPPORTED = "not_supported"
    UNSATISFIABLE = "unsatisfiable"
    DIRECTORY_UNAVAILABLE = "directory_unavailable"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    BUSY = "busy"
    DISK_FULL = "disk_full"
    INTERNAL = "internal"


STATUS: dict[Code, int] = {
    Code.INVALID: 400,
    Code.UNAUTHENTICATED: 401,
    Code.DENIED: 403,
    Code.TOKEN_NETWORK: 403,
    Code.PASSWORD_CHANGE_REQUIRED: 403,
    Code.SECOND_FACTOR_REQUIRED: 401,
    Code.SECOND_FACTOR_SETUP_REQUIRED: 403,
    Code.FRESH_SIGN_IN_REQUIRED: 403,
    Code.DEVICE_LOGIN_PENDING: 409,
    Code.NOT_FOUND: 404,
    Code.CONFLICT: 409,
    Code.IN_USE: 409,
    Code.NOT_ACTIVE: 409,
    Code.TOKEN_SPENT: 409,
    Code.NODE_UNREACHABLE: 409,
    Code.NODE_LOCKED: 409,
    Code.HOST_KEY_UNCONFIRMED: 409,
    Code.HOST_KEY_CHANGED: 409,
    Code.ADDRESS_NOT_ALLOWED: 403,
    Code.HOST_UNREACHABLE: 409,
    Code.SIGN_IN_REFUSED: 409,
    Code.PREFLIGHT_FAILED: 409,
    Code.INSTALLATION_FAILED: 409,
    Code.GONE: 410,
    Code.STALE: 412,
    Code.IDEMPOTENCY_MISMATCH: 422,
    Code.TOO_MANY_ATTEMPTS: 429,
    Code.MAIL_FAILED: 409,
    Code.NOT_SUPPORTED: 409,
    Code.UNSATISFIABLE: 409,
    Code.DIRECTORY_UNAVAILABLE: 503,
    Code.PROVIDER_UNAVAILABLE: 503,
    Code.BUSY: 503,
    Code.DISK_FULL: 507,
    Code.INTERNAL: 500,
}


def problem_type(code: Code) -> str:
    """Return the URL of the code's page in the error reference, relative to the appliance."""
    return f"/docs/reference/errors/{code}/"


class ApplianceError(Exception):
    """An error with a stable code. REST, the gateway and commands convert it for their clients."""

    def __init__(self, code: Code, detail: str, **fields: object) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.fields = fields

    @property
    def status(self) -> int:
        return STATUS[self.code]
