"""Parts of the OpenAPI document that all operations share."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from appliance.api.description.operations import (
    description_of,
    documentation_of,
    error_responses,
    request_headers,
    response_headers,
    summary_of,
)
from appliance.api.fields import LineField
from appliance.api.pagination import CursorPagination
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import UNSAFE_METHODS, ApplianceView, supports_dry_run

DRY_RUN = OpenApiParameter(
    "dry_run",
    bool,
    description="If true, the request is executed and rolled back; the response shows the outcome.",
)


class FieldProblemSerializer(serializers.Serializer[dict[str, str]]):
    pointer = serializers.CharField(help_text="JSON pointer to the field in the request body.")
    code = serializers.CharField()
    message = serializers.CharField()


class ProblemSerializer(serializers.Serializer[dict[str, Any]]):
    """Problem details (RFC 9457). Some problems have more members, such as `blockers`."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        # Not class attributes: `errors` is a property of every serializer.
        return {
            "type": serializers.CharField(),
            "title": serializers.CharField(),
            "status": serializers.IntegerField(),
            "code": serializers.CharField(help_text="Stable error code for programs."),
            "detail": serializers.CharField(
                help_text="What is wrong and what to do, in a sentence."
            ),
            "instance": serializers.CharField(required=False),
            "errors": FieldProblemSerializer(many=True, required=False),
        }


class DocumentedSchema(AutoSchema):
    """Adds dry runs, pages and problems to the operations of ApplianceView."""

    def get_summary(self) -> str | None:
        return summary_of(documentation_of(self.view, self.method))

    def get_override_parameters(self) -> list[Any]:
        has_dry_run = (
            self.method in UNSAFE_METHODS
            and isinstance(self.view, ApplianceView)
            and supports_dry_run(self.view, self.method)
        )
        return [DRY_RUN] if has_dry_run else []

    def _get_paginator(self) -> Any:
        if self.method == "GET" and isinstance(self.view, ApplianceView):
            return CursorPagination()
        return super()._get_paginator()  # type: ignore[no-untyped-call]

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation = super().get_operation(*args, **kwargs)
        if operation is not None and isinstance(self.view, ApplianceView):
            self.resolve_serializer(ProblemSerializer, "response")
            self.add_headers(operation, self.view)
            operation["responses"] |= error_responses(self.view, self.method, self.path)
        return operation

    def add_headers(self, operation: dict[str, Any], view: ApplianceView) -> None:
        if headers := request_headers(view, self.method):
            operation.setdefault("parameters", []).extend(headers)
        for status, response in operation["responses"].items():
            response.setdefault("headers", {}).update(response_headers(view, self.method, status))

    def _map_serializer(self, serializer: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        schema: dict[str, Any] = super()._map_serializer(serializer, *args, **kwargs)  # type: ignore[no-untyped-call]
        if isinstance(serializer, RequestSerializer):
            schema["additionalProperties"] = False
        return schema

    def _insert_field_validators(self, field: Any, schema: dict[str, Any]) -> None:
        """Omit the alternative of an empty text where the pattern permits it anyway."""
        super()._insert_field_validators(field, schema)  # type: ignore[no-untyped-call]
        if isinstance(field, LineField) and "oneOf" in schema:
            schema.update(schema.pop("oneOf")[0])

    def get_description(self) -> str:  # type: ignore[override]  # as in AutoSchema
        return description_of(self.view, self.method)
