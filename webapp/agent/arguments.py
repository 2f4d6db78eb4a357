"""Flags, environment and file of a command that runs on nodes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import NoReturn

from webapp import logs
from webapp.config import COMMANDS, settings_of
from webapp.settings import SettingError, add_flags, resolve


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with a flag."""

    def error(self, message: str) -> NoReturn:
        raise SettingError(message)


def read(command: str, arguments: Sequence[str], environment: Mapping[str, str]) -> SimpleNamespace:
    """The settings of `command`; logging is set up as they say. Raises SettingError."""
    table = settings_of(command)
    parser = Parser(prog=f"enginehouse {command}", description=COMMANDS[command], allow_abbrev=False)
    add_flags(parser, table)
    settings = resolve(table, parser.parse_args(arguments), environment)
    logs.start(settings.log_level, settings.log_format)
    return settings
