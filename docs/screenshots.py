"""Write docs/screenshots/ from the demo fleet: `make screenshots`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
os.chdir(ROOT)

from tests.browser import chromium
from tests.programs import control_plane

FOLDER = ROOT / "docs" / "screenshots"
PAGES = {"cluster": "/", "node": "/nodes/cpu-01", "add": "/add"}
SIZES = {1440: 900, 768: 1024, 390: 844}


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        chromium() as browser,
        control_plane(Path(folder) / "log", "--nodes", "40", command="demo") as (url, _),
    ):
        for width, height in SIZES.items():
            for scheme in ("light", "dark"):
                context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
                page = context.new_page()
                for name, path in PAGES.items():
                    page.goto(url + path)
                    page.wait_for_timeout(1500)
                    page.screenshot(path=FOLDER / f"{name}-{width}-{scheme}.png")
                context.close()


if __name__ == "__main__":
    main()
