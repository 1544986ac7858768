"""Client of the REST API of a Busbar appliance.

    from busbar_client import Client

    with Client("https://192.0.2.1:8443", token, ca_pem) as client:
        for node in client.all(client.nodes_list, state="ready"):
            print(node["name"])

Types of bodies are in `busbar_client.types`. Methods are named like the operations of
docs/openapi.yaml; both files are generated from it.
"""

from busbar_client.client import Client
from busbar_client.connection import ClientError, Connection, Problem, Unreachable

__all__ = ["Client", "ClientError", "Connection", "Problem", "Unreachable"]
__version__ = "0.1.0"
