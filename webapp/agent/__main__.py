"""`python -m webapp.agent --server URL`, and the other commands that run on nodes: `... resource-agent`, `report`, `run`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

from webapp.settings import SettingError

#: Command -> its module, loaded only when it is asked for.
COMMANDS = {
    "agent": "webapp.agent.command",
    "resource-agent": "webapp.agent.resource_agent",
    "report": "webapp.agent.report",
    "run": "webapp.agent.run",
}


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs the command that `arguments` begin with; without one, the agent. Exit code 2: a setting can't be used."""
    name, rest = (arguments[0], arguments[1:]) if arguments and arguments[0] in COMMANDS else ("agent", arguments)
    try:
        return int(import_module(COMMANDS[name]).main(list(rest), environment))
    except SettingError as error:
        sys.stderr.write(f"enginehouse {name}: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
