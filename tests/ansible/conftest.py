from tests.fleet.conftest import appliance, appliance_of_the_session, machine

__all__ = ["appliance", "appliance_of_the_session", "machine"]
