"""Base class of all REST views."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, ClassVar

from django.db.models import Model
from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from appliance.api.audited_request import origin_of, refusals_of
from appliance.api.authorities_header import AUTHORITIES_HEADER, authorities_digest
from appliance.api.errors import ApplianceError, Code
from appliance.api.request_serializer import reject_unknown_fields
from appliance.db import origin
from appliance.db.writer import dry_run, write_transaction

UNSAFE_METHODS = ("POST", "PUT", "PATCH", "DELETE")
REQUEST_HEADER = "Busbar-Request"
"""Response header: id of a request that may change something, as in its audit record."""


ErrorCodes = Mapping[str, Collection[Code]]
Handler = Callable[..., Response]
COMPARES_VERSION, TAKES_KEY = "compares_version", "takes_key"
"""Marks of handlers that a resource has made: their view lists them by itself."""


class ApplianceView(APIView):
    """A view that declares the privilege of each method; a test lists views that do not."""

    privileges: ClassVar[dict[str, str]] = {}
    """HTTP method to privilege, or `public`."""
    inventory_methods: ClassVar[frozenset[str]] = frozenset()
    """Methods that check the places of their objects in the inventory. For them the privilege at
    a site, node, GPU or pool suffices; for others only role bindings elsewhere count."""
    dry_run_supported: ClassVar[bool] = True
    """False for views with effects outside the database."""
    returns_secret: ClassVar[bool] = False
    """Whether POST returns a secret, which is not stored: atomic bulk requests store answers."""
    without_body: ClassVar[bool] = False
    """Whether POST has no request body. DELETE never has one."""
    read_only_methods: ClassVar[frozenset[str]] = frozenset()
    """Unsafe methods of HTTP that change nothing here; the HTTP server process serves them."""
    inline_write: ClassVar[bool] = False
    """Run unsafe methods entirely on the writer thread. Only for views that do nothing slow:
    no password hashing, no network."""
    login_methods: ClassVar[frozenset[str]] = frozenset()
    """Methods that check a password."""
    provider_methods: ClassVar[frozenset[str]] = frozenset()
    """Methods that wait for an identity provider. They have capacity of their own."""
    renewal_methods: ClassVar[frozenset[str]] = frozenset()
    """Methods on which running work depends. They have capacity of their own."""
    version_methods: ClassVar[frozenset[str]] = frozenset()
    """Methods that compare `If-Match` with the version of the object. Those of a resource do."""
    idempotent_methods: ClassVar[frozenset[str]] = frozenset()
    """Methods that return the stored response for a repeated `Idempotency-Key`. The creation of
    a resource does."""
    error_codes: ClassVar[ErrorCodes] = {}
    """Method to the codes that few operations have (api/description/error_codes.py)."""
    created: ClassVar[Mapping[str, str]] = {}
    """Method to the collection, such as `tasks`, of the object that it creates and responds with,
    if that can be read there."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.version_methods |= marked(cls, COMPARES_VERSION)
        cls.idempotent_methods |= marked(cls, TAKES_KEY)

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        with origin.scope(origin.current()):  # `initial` sets another one
            return super().dispatch(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        method = request.method or ""
        if method in UNSAFE_METHODS:
            origin.set_current(origin_of(request))
        if method == "DELETE" or (method == "POST" and self.without_body):
            reject_body(request.data)
        if method in self.version_methods and (tags := request.headers.get("If-Match")):
            self.wrap_handler(request, partial(run_conditionally, tags))
        wanted = request.query_params.get("dry_run") if method in UNSAFE_METHODS else None
        if wanted is None or wanted == "false":
            return
        if wanted != "true":
            raise ApplianceError(Code.INVALID, "dry_run must be true or false.")
        if not supports_dry_run(self, method):
            raise ApplianceError(Code.INVALID, "This operation does not support dry_run.")
        if method in self.read_only_methods:
            return  # nothing to roll back: a read must not hold the writer thread
        self.wrap_handler(request, run_dry)

    def wrap_handler(self, request: Request, wrap: Callable[[Handler], Handler]) -> None:
        # The writer may run the handler twice, and DRF has an empty body after a malformed one.
        _ = request.data
        name = (request.method or "").lower()
        setattr(self, name, wrap(getattr(self, name)))

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        final = super().finalize_response(request, response, *args, **kwargs)
        final[AUTHORITIES_HEADER] = authorities_digest()
        self.add_object_headers(request.method or "", final)
        if (made_by := origin.current()) is not None and made_by.request_id is not None:
            final[REQUEST_HEADER] = str(made_by.request_id)
        vars(final)["refusals"] = refusals_of(request, final, self.is_login, kwargs)
        return final

    @classmethod
    def location_of(cls, method: str) -> str | None:
        """Return the path of the collection of the object that the method creates."""
        collection = cls.created.get(method)
        return None if collection is None else f"/api/v1/{collection}/"

    def add_object_headers(self, method: str, response: Any) -> None:
        """Add `ETag` to a response that shows one object, and `Location` to that of a new one."""
        content = getattr(response, "data", None)
        if not 200 <= response.status_code < 300 or not isinstance(content, dict):
            return
        if isinstance(version := content.get("version"), int):
            response.headers.setdefault("ETag", f'"{version}"')
        if "id" in content and (collection := self.location_of(method)):
            response["Location"] = collection + str(content["id"])

    @property
    def is_login(self) -> bool:
        """Return whether refusals are failed logins, recorded without credentials, too."""
        return bool(self.login_methods or self.provider_methods)

    def perform_authentication(self, request: Request) -> None:
        if self.privileges.get(request.method or "") != "public":
            super().perform_authentication(request)


def mark(handler: Handler, name: str) -> Handler:
    vars(handler)[name] = True
    return handler


def marked(view: type[ApplianceView], name: str) -> frozenset[str]:
    """Return the methods whose handlers in the body of the class have a mark."""
    members = vars(view).items()
    return frozenset(m.upper() for m, value in members if name in getattr(value, "__dict__", ()))


def run_conditionally(tags: str, handler: Handler) -> Handler:
    """Run a handler in one transaction: no other write between its comparison and its change."""

    @write_transaction
    def run(*args: Any, **kwargs: Any) -> Response:
        try:
            return handler(*args, **kwargs)
        except Http404:
            if tags.strip() != "*":
                raise
            text = "The object does not exist, or you have no permission to see it."
            raise ApplianceError(Code.STALE, text) from None

    return run


def run_dry(handler: Handler) -> Handler:
    def run(*args: Any, **kwargs: Any) -> Response:
        response: Response = dry_run(lambda: handler(*args, **kwargs))
        response.__dict__.pop("wait", None)  # the object was rolled back: no wait for it
        return response

    return run


def reject_body(body: object) -> None:
    """Raise ValidationError or ApplianceError (INVALID) for a request body that is not empty."""
    if isinstance(body, Mapping):
        reject_unknown_fields(body, ())
    elif body:
        raise ApplianceError(Code.INVALID, "This operation has no request body.")


def supports_dry_run(view: ApplianceView, method: str) -> bool:
    return view.dry_run_supported and view.privileges.get(method) != "public"


def check_version(row: Model, request: Request) -> None:
    """Compare the If-Match header, if present, with the row's version. `*` matches each version.

    The row stays locked until the end of the transaction, which `ApplianceView` begins before the
    handler of such a request. Raises ApplianceError: STALE if the versions differ, NOT_FOUND for a
    row that was deleted since it was read.
    """
    wanted = request.headers.get("If-Match")
    if not wanted or wanted.strip() == "*":
        return
    locked = type(row)._base_manager.select_for_update(no_key=True).filter(pk=row.pk).first()
    if locked is None and not row._state.adding:
        raise ApplianceError(Code.NOT_FOUND, "The object was deleted meanwhile.")
    version = str(getattr(locked or row, "version", ""))  # default settings have no stored row
    if version not in {t.strip().strip('"') for t in wanted.split(",")}:
        raise ApplianceError(
            Code.STALE, "The object changed since you read it; read it again and repeat."
        )
