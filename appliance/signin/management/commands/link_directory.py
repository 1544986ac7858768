from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    requires_system_checks = ()
    help = "Let a person of the directory sign in to an account, in place of its password."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="Username of the account.")
        parser.add_argument("person", nargs="?", help="Name in the directory; default: the same.")

    def handle(self, *args: Any, **options: Any) -> None:
        from appliance.accounts.local_commands import local_account
        from appliance.api.errors import ApplianceError
        from appliance.signin import directory
        from appliance.signin.directory_entry import DirectoryUnavailableError, is_configured
        from appliance.signin.directory_links import link

        if not is_configured():
            raise CommandError("There is no directory. Set BUSBAR_LDAP_URL.")
        user, person = local_account(options["user"]), options["person"] or options["user"]
        try:
            entry = directory.find_named(person)
            if entry is None:
                raise CommandError(f"The directory has no person {person}.")
            link(user=user, entry=entry)
        except (ApplianceError, DirectoryUnavailableError) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{entry.dn} signs in to the account {user.username}. Its tokens ended.")
