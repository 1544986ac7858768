"""Login and the caller's own account."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts import services
from appliance.accounts.models import RoleBinding
from appliance.rest import ApplianceView, caller

TOKEN_LIFE = timedelta(days=30)


class LoginSerializer(serializers.Serializer[dict[str, str]]):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=500)
    new_password = serializers.CharField(max_length=500, required=False, help_text="Needed when the password is one-time.")


class TokenSerializer(serializers.Serializer[dict[str, str]]):
    token = serializers.CharField(help_text="Shown once.")
    must_change_password = serializers.BooleanField()


class BindingSerializer(serializers.ModelSerializer[RoleBinding]):
    project = serializers.CharField(source="project.name", default=None, read_only=True)

    class Meta:
        model = RoleBinding
        fields = ("role", "project")


class MeSerializer(serializers.Serializer[dict[str, object]]):
    id = serializers.UUIDField()
    username = serializers.CharField()
    must_change_password = serializers.BooleanField()
    roles = BindingSerializer(many=True)


class LoginView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "public"}

    @extend_schema(request=LoginSerializer, responses=TokenSerializer, auth=[])
    def post(self, request: Request) -> Response:
        form = LoginSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        user = services.login(username=form.validated_data["username"], password=form.validated_data["password"])
        if new := form.validated_data.get("new_password"):
            services.password_change(user=user, new_password=new)
        _, text = services.token_create(user=user, name="login", life=TOKEN_LIFE)
        return Response({"token": text, "must_change_password": user.must_change_password})


class MeView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "account.self"}

    @extend_schema(responses=MeSerializer)
    def get(self, request: Request) -> Response:
        user = caller(request)
        bindings = RoleBinding.objects.filter(user=user).select_related("project")
        roles = [{"role": b.role, "project": b.project.name if b.project else None} for b in bindings]
        return Response({"id": user.pk, "username": user.username, "must_change_password": user.must_change_password, "roles": roles})
