"""`--install`: keep the agent running on this node as a hardened systemd service.

Copies the running agent.pyz to its place, writes the unit and, where systemd runs, starts it. Run again with other
flags, it writes both anew.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from webapp.settings import SettingError

SERVICE = "enginehouse-agent"
PROGRAM = Path("/usr/local/lib/enginehouse/agent.pyz")
UNIT = Path(f"/etc/systemd/system/{SERVICE}.service")

#: The agent reads all of /proc, so it keeps CAP_SYS_PTRACE (smaps_rollup, other users' files) and gives up the rest.
_UNIT = """[Unit]
Description=Enginehouse agent: how busy this node is, and which engine makes it so
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={command}
Restart=always
RestartSec=5
StateDirectory=enginehouse
MemoryMax=128M
CPUWeight=20
Nice=5

CapabilityBoundingSet=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH
AmbientCapabilities=
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
UMask=0077

[Install]
WantedBy=multi-user.target
"""


def unit(program: Path, flags: Sequence[str], python: str = "/usr/bin/python3") -> str:
    """The text of the service's unit, which runs `program` with `flags`."""
    words = [python, str(program), *flags, "--data-dir", "/var/lib/enginehouse"]
    return _UNIT.format(command=" ".join(_quoted(word) for word in words))


def _quoted(word: str) -> str:
    """A word as systemd reads it in ExecStart.

    >>> _quoted("http://c:1"), _quoted("50% of $HOME")
    ('http://c:1', '"50%% of $$HOME"')
    """
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$").replace("%", "%%")
    return escaped if word.isprintable() and word and not set(word) & set(" \t\"'\\;") else f'"{escaped}"'


def install(flags: Sequence[str], *, running: Path, program: Path = PROGRAM, unit_file: Path = UNIT) -> str:
    """Put program and unit in place and start the service; what was done, in sentences. Raises SettingError.

    `flags` are those of the service; `running` is the archive that runs now.
    """
    if running.suffix != ".pyz" or not running.is_file():
        raise SettingError("--install: works from the archive only; fetch agent.pyz from the control plane's page Add a node")
    try:
        program.parent.mkdir(parents=True, exist_ok=True)
        if running.resolve() != program.resolve():
            fresh = program.with_suffix(".new")
            shutil.copyfile(running, fresh)
            fresh.chmod(0o755)
            fresh.replace(program)
        unit_file.write_text(unit(program, flags, sys.executable), "utf-8")
    except OSError as error:
        raise SettingError(f"--install: {error.filename}: {error.strerror}; run it as root") from error
    done = f"{program} and {unit_file} are written."
    if not Path("/run/systemd/system").is_dir():
        return f"{done} systemd does not run here, so nothing was started."
    for command in (["systemctl", "daemon-reload"], ["systemctl", "enable", SERVICE], ["systemctl", "restart", SERVICE]):
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if result.returncode:
            raise SettingError(f"--install: {' '.join(command)} failed: {result.stderr.strip()[:300]}")
    return f"{done} {SERVICE} is running: journalctl -u {SERVICE} shows what it says."
