"""`python -m nodes enrol | run`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from dataclasses import replace
from pathlib import Path

from nodes.errors import NodeError


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="busbar-agent", description="Makes a machine's GPUs part of the pool."
    )
    parser.add_argument(
        "--folder",
        type=Path,
        required=True,
        help="keys, certificates and identity of this node; 0700",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    enrol = verbs.add_parser("enrol", help="redeem an enrolment token")
    enrol.add_argument("--token", required=True, help="as `busbar node token` printed it, or @FILE")
    run = verbs.add_parser("run", help="serve until SIGTERM")
    run.add_argument("--launcher-socket", type=Path, required=True)
    run.add_argument(
        "--appliance", help="HOST:PORT of its fleet service, if it moved since the enrolment"
    )
    run.add_argument(
        "--address",
        action="append",
        default=[],
        help="under which clients reach the launcher; may be given again",
    )
    arguments = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        return {"enrol": do_enrol, "run": do_run}[arguments.verb](arguments)
    except NodeError as error:
        print(f"busbar-agent: {error}", file=sys.stderr)
        return 1


def do_enrol(arguments: argparse.Namespace) -> int:
    from nodes.enrolment import enrol

    token = arguments.token
    identity = enrol(
        arguments.folder, Path(token[1:]).read_text() if token.startswith("@") else token
    )
    print(f"enrolled as {identity.node_name}")
    return 0


def do_run(arguments: argparse.Namespace) -> int:
    from nodes.agent import Agent
    from nodes.checkpoint import load_identity
    from nodes.launcher_control import LauncherControl

    identity = load_identity(arguments.folder)
    if identity is None:
        raise NodeError(f"{arguments.folder} holds no identity; run `enrol` with a token first.")

    if arguments.appliance:
        identity = replace(identity, fleet_address=arguments.appliance)

    async def serve() -> None:
        await Agent(
            arguments.folder,
            identity,
            LauncherControl(arguments.launcher_socket),
            arguments.address or ["127.0.0.1"],
        ).run()

    asyncio.run(serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
