from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser


class Command(BaseCommand):
    help = "Prints an API token for a service user, made if need be. For automation on the appliance itself."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", default="local")
        parser.add_argument("--role", default="operator")
        parser.add_argument("--hours", type=float, default=24)

    def handle(self, *args: Any, **options: Any) -> None:
        from appliance.accounts.models import Role, RoleBinding, User
        from appliance.accounts.services import token_create

        role = Role(options["role"])
        user, made = User.objects.get_or_create(username=options["user"])
        if made:
            user.set_unusable_password()
            user.save(update_fields=["password"])
        RoleBinding.objects.get_or_create(user=user, project=None, role=role)
        self.stdout.write(
            token_create(user=user, name="local", life=timedelta(hours=options["hours"]))[1]
        )
