"""Write docs/screenshots/ from the demo fleet: `make screenshots`; a few of them: `python docs/screenshots.py models past`."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
os.chdir(ROOT)

from tests.browser import chromium
from tests.programs import control_plane

FOLDER = ROOT / "docs" / "screenshots"
#: Pages that are shown at one width only; the others at each.
ONCE = ("orphan", "router", "gpu-missing", "gpu-probe-failed", "placement", "embedded")
#: {past} is a moment half an hour ago.
PAGES = {
    "cluster": "/",
    "map": "/?view=map&group=rack",
    "orphan": "/nodes/cpu-07",
    "router": "/nodes/cpu-09",
    "gpu-missing": "/nodes/gpu-11",
    "gpu-probe-failed": "/nodes/cpu-10",
    "node": "/nodes/cpu-01",
    "models": "/models",
    "model": "/models/llama-3.3-70b-instruct",
    "model-by-node": "/models/qwen3-32b?by=node",
    "past": "/nodes/cpu-01?at={past}",
    "placement": "/placement?memory_gib=40&cores=8",
    "embedded": "/?embed=1&columns=state,cpu,memory,queue",
    "add": "/add",
}
SIZES = {1440: 900, 768: 1024, 390: 844}


def main(wanted: list[str]) -> None:
    past = time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(time.time() - 1800))
    with (
        tempfile.TemporaryDirectory() as folder,
        chromium() as browser,
        control_plane(Path(folder) / "log", "--nodes", "40", command="demo") as (url, _),
    ):
        for width, height in SIZES.items():
            for scheme in ("light", "dark"):
                context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
                page = context.new_page()
                for name in wanted:
                    if name in ONCE and (width != 1440 or scheme != "light"):
                        continue
                    page.goto(url + PAGES[name].format(past=past))
                    page.wait_for_timeout(1500)
                    page.screenshot(path=FOLDER / f"{name}-{width}-{scheme}.png")
                context.close()


if __name__ == "__main__":
    main(sys.argv[1:] or list(PAGES))
