"""Shows the secret of a second factor once: as text, as an address and as a QR code."""

from __future__ import annotations

import segno
from django.conf import settings
from rest_framework import serializers

from appliance.accounts.models import User
from appliance.signin import totp


class SecretSerializer(serializers.Serializer[dict[str, object]]):
    secret = serializers.CharField(
        help_text="The secret in base 32, to type into an app. Returned only once."
    )
    uri = serializers.CharField(help_text="The same as an `otpauth:` address.")
    qr = serializers.ListField(
        child=serializers.CharField(),
        help_text="The address as a QR code: rows of 0 (light) and 1 (dark).",
    )


def secret_fields(secret: bytes, user: User) -> dict[str, object]:
    uri = totp.uri(secret, user.username, settings.ENVIRONMENT.advertise)
    rows = segno.make(uri, error="m", micro=False).matrix
    return {
        "secret": totp.base32(secret),
        "uri": uri,
        "qr": ["".join("1" if dark else "0" for dark in row) for row in rows],
    }
