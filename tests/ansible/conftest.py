from tests.fleet.conftest import appliance, machine, session_appliance

__all__ = ["appliance", "machine", "session_appliance"]
