# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Client of the appliance's REST API for modules. Needs no additional Python package."""

import json
import ssl
import uuid
from urllib.error import HTTPError, URLError

from ansible.module_utils.urls import open_url


class ApplianceError(Exception):
    """An error response of the appliance, or a failed connection."""

    def __init__(self, detail, status=0, code=""):
        super().__init__(detail)
        self.status = status
        self.code = code


class Appliance:
    """A connection to the REST API.

    `token` is an API token. `ca_file` holds the certificate of the appliance's CA in PEM format.
    """

    def __init__(self, url, token, ca_file, timeout_seconds=30):
        self.url = url.rstrip("/") + "/api/v1/"
        self.token = token
        self.ca_file = ca_file
        self.timeout_seconds = timeout_seconds

    def request(self, method, path, body=None, version=None):
        """Return the JSON of the response, or None if it is empty. Raises ApplianceError.

        `version` makes the request fail if the object has another version.
        """
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": "application/json"}
        if method == "POST":
            headers["Idempotency-Key"] = uuid.uuid4().hex
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        data = json.dumps(body) if body is not None else None
        try:
            response = open_url(
                self.url + path,
                data=data,
                headers=headers,
                method=method,
                ca_path=self.ca_file,
                timeout=self.timeout_seconds,
                use_proxy=False,
                http_agent="busbar.pool",
            )
            content = response.read()
        except HTTPError as error:
            raise self._problem(error) from None
        except (URLError, ssl.SSLError, OSError) as error:
            raise ApplianceError(f"Cannot reach the appliance at {self.url}: {error}") from None
        return json.loads(content) if content else None

    @staticmethod
    def _problem(error):
        try:
            content = json.loads(error.read())
            detail = content["detail"]
            for e in content.get("errors", []):
                detail += f" {e['pointer']}: {e['message']}"
            return ApplianceError(detail, error.code, content.get("code", ""))
        except (ValueError, KeyError):
            return ApplianceError(f"The appliance returned HTTP status {error.code}.", error.code)

    def items(self, path, query=""):
        """Return the objects of all pages of a list. `query` has filters such as `state=ready`."""
        found, cursor = [], ""
        first = f"{path}?limit=500" + (f"&{query}" if query else "")
        while True:
            page = self.request("GET", first + (f"&cursor={cursor}" if cursor else ""))
            found.extend(page["items"])
            cursor = page["next"]
            if not cursor:
                return found

    def find_by_name(self, path, name):
        """Return the object with this name, or None."""
        return next((row for row in self.items(path) if row["name"] == name), None)


def appliance_argument_spec():
    return {
        "url": {"type": "str", "required": True},
        "token": {"type": "str", "required": True, "no_log": True},
        "ca_file": {"type": "path", "required": True},
    }
