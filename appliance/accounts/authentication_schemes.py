"""The kinds of authentication in the OpenAPI document. drf-spectacular finds them by their import.

Commands do without this module: it imports Django's test client and more.
"""

from __future__ import annotations

from drf_spectacular.extensions import OpenApiAuthenticationExtension

from appliance.accounts.authentication import CONSOLE_COOKIE


class CookieScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "appliance.accounts.authentication.CookieAuthentication"
    name = "cookie"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": CONSOLE_COOKIE}


# drf-spectacular has no types for its extensions.
class ApiTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "appliance.accounts.authentication.ApiTokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}
