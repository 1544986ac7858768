from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser


class Command(BaseCommand):
    requires_system_checks = ()
    help = (
        "Create an API token for a service user and print it. Creates the user if it is missing."
        " For automation on the appliance itself."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", default="local", help="Username of the service user.")
        parser.add_argument("--role", default="operator", help="Role on the whole appliance.")
        parser.add_argument("--hours", type=float, default=24, help="Lifetime of the token.")

    def handle(self, *args: Any, **options: Any) -> None:
        from appliance.accounts.models import BINDING_PLACES, Role, RoleBinding, User
        from appliance.accounts.services import token_create

        role = Role(options["role"])
        user, created = User.objects.get_or_create(username=options["user"])
        if created:
            user.set_unusable_password()
            user.save(update_fields=["password"])
        RoleBinding.objects.get_or_create(user=user, **dict.fromkeys(BINDING_PLACES), role=role)
        lifetime = timedelta(hours=options["hours"])
        self.stdout.write(
            token_create(user=user, name="local", lifetime=lifetime, is_sign_in=True)[1]
        )
