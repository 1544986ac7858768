from __future__ import annotations

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Set a new one-time password for the user admin and print it."

    def handle(self, *args: object, **options: object) -> None:
        from appliance.accounts.models import User
        from appliance.accounts.services import set_one_time_password

        self.stdout.write(set_one_time_password(user=User.objects.get(username="admin")))
