"""Bearer tokens of the REST API."""

from __future__ import annotations

import hashlib
import hmac
import uuid

from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from appliance.accounts.models import ApiToken, User

PREFIX = "bb_"


def hash_secret(secret: str) -> str:
    """A plain hash suffices for 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def token_for(presented: str) -> ApiToken | None:
    """The live token behind the text, or None."""
    head, _, secret = presented.removeprefix(PREFIX).partition(".")
    try:
        token = ApiToken.objects.select_related("user").get(pk=uuid.UUID(hex=head))
    except (ValueError, ApiToken.DoesNotExist):
        return None
    if not hmac.compare_digest(token.secret_sha256, hash_secret(secret)):
        return None
    if (token.expires_at and token.expires_at < timezone.now()) or not token.user.is_active:
        return None
    return token


class ApiTokenAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        words = get_authorization_header(request).decode(errors="replace").split()
        if len(words) != 2 or words[0].lower() != "bearer":
            return None
        token = token_for(words[1])
        if token is None:
            raise AuthenticationFailed
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class ApiTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular has no types for it
    target_class = "appliance.accounts.authentication.ApiTokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}
