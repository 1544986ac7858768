"""Operations of a REST resource: list, create, read, change and delete, the same for each kind.

A module declares its resource once, and its views name an operation and call a service. What each
operation needs comes from here: page and filters, validation, the version (`If-Match`), the
idempotency key, the actions, and the description in the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.action_views import detail_of
from appliance.accounts.actions import Kind
from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import create_once
from appliance.accounts.models import User
from appliance.api.listing import Listing
from appliance.api.request_serializer import RequestSerializer
from appliance.api.serialization import serialize
from appliance.api.views import (
    COMPARES_VERSION,
    TAKES_KEY,
    ApplianceView,
    Handler,
    check_version,
    mark,
)

M = TypeVar("M", bound=Model)
Values = dict[str, Any]
"""The validated body of a request."""
Form = type[RequestSerializer[Any]]
Rows = Callable[[User], QuerySet[M]]
Permit = Callable[[User, M], object]
"""Raises an error if the user may not change the row. Runs before the version is compared."""
Create = Callable[[Any, User, Values], M]
Change = Callable[[Any, User, M, Values], M]
Delete = Callable[[Any, User, M], object]


@dataclass(eq=False)
class Resource(Listing, Generic[M]):
    """A list with the operations on its objects."""

    rows: Rows[M] = field(kw_only=True)
    """Returns the rows that the user may view, with what the serializer reads of other tables."""
    kind: Kind[M] | None = field(default=None, kw_only=True)
    """Its actions are shown in the detail."""
    represent: Callable[[User, list[M]], Iterable[Mapping[str, Any]]] | None = field(
        default=None, kw_only=True
    )
    """Returns the bodies of rows, where they need more than the serializer and the row."""

    def lists(self, text: str) -> Handler:
        """Return the handler of GET for the collection. `text` describes it."""

        @extend_schema(parameters=self.parameters, responses=self.serializer(many=True))
        def get(view: ApplianceView, request: Request) -> Response:
            user, represent = request_user(request), self.represent
            bodies = None if represent is None else lambda found: represent(user, found)
            return self.respond(request, self.rows(user), bodies)

        get.__doc__ = text
        return get

    def shows(self, text: str) -> Handler:
        """Return the handler of GET for one object. `text` describes it."""
        kind = self.kind

        @extend_schema(responses=self.serializer if kind is None else detail_of(self.serializer))
        def get(view: ApplianceView, request: Request, **ids: UUID) -> Response:
            user = request_user(request)
            row = find(self.rows(user), ids)
            actions = {} if kind is None else {"actions": kind.actions_of(user, row)}
            return Response(self.body(user, row) | actions)

        get.__doc__ = text
        return get

    def creates(
        self, form: Form, *, secrets: Collection[str] = ()
    ) -> Callable[[Create[M]], Handler]:
        """Make a handler of POST, repeatable with a key, of a function that creates an object.

        `secrets` are fields that are not stored with the key.
        """

        def decorate(create: Create[M]) -> Handler:
            @extend_schema(request=form, responses={201: self.serializer})
            @wraps(create)
            def post(view: ApplianceView, request: Request) -> Response:
                user, values = request_user(request), validated(form, request)

                def effect() -> Mapping[str, Any]:
                    return self.body(user, create(view, user, dict(values)))

                return create_once(request, effect, secrets=secrets)

            return mark(post, TAKES_KEY)

        return decorate

    def changes(
        self, form: Form | None, *, rows: Rows[M] | None = None, permit: Permit[M] | None = None
    ) -> Callable[[Change[M]], Handler]:
        """Make a handler of PATCH or of an action of a function that changes an object.

        An action may have no form. `rows` are those that the user may change, if others than
        those to view.
        """

        def decorate(change: Change[M]) -> Handler:
            @extend_schema(request=form, responses=self.serializer)
            @wraps(change)
            def handle(view: ApplianceView, request: Request, **ids: UUID) -> Response:
                user = request_user(request)
                row = self.unchanged(request, ids, rows, permit)
                values = {} if form is None else validated(form, request)
                return Response(self.body(user, change(view, user, row, values)))

            return self.mark_versioned(handle)

        return decorate

    def deletes(self, *, rows: Rows[M] | None = None) -> Callable[[Delete[M]], Handler]:
        """Make a handler of DELETE of a function that deletes an object. `rows`: see `changes`."""

        def decorate(delete: Delete[M]) -> Handler:
            @extend_schema(responses={204: None})
            @wraps(delete)
            def handle(view: ApplianceView, request: Request, **ids: UUID) -> Response:
                row = self.unchanged(request, ids, rows, None)
                delete(view, request_user(request), row)
                return Response(status=204)

            return self.mark_versioned(handle)

        return decorate

    def unchanged(
        self,
        request: Request,
        ids: Mapping[str, UUID],
        rows: Rows[M] | None,
        permit: Permit[M] | None,
    ) -> M:
        """Return the row for a change, in the version that the request names, if it shows one.

        Raises Http404, and the ApplianceError of `permit` and of `check_version`.
        """
        user = request_user(request)
        row = find((rows or self.rows)(user), ids)
        if permit is not None:
            permit(user, row)
        if self.is_versioned:
            check_version(row, request)
        return row

    @property
    def is_versioned(self) -> bool:
        return "version" in self.field_names

    def mark_versioned(self, handler: Handler) -> Handler:
        return mark(handler, COMPARES_VERSION) if self.is_versioned else handler

    def body(self, user: User, row: M) -> dict[str, Any]:
        if self.represent is None:
            return serialize(self.serializer, row)
        (found,) = self.represent(user, [row])
        return dict(found)


def find(rows: QuerySet[M], ids: Mapping[str, UUID]) -> M:
    """Return the row that the path names. Raises Http404."""
    (pk,) = ids.values()
    return get_object_or_404(rows, pk=pk)


def validated(form: Form, request: Request) -> Values:
    """Return the values of the body. PATCH may omit each. Raises ValidationError."""
    checked = form(data=request.data, partial=request.method == "PATCH")
    checked.is_valid(raise_exception=True)
    return dict(checked.validated_data)
