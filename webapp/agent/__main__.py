"""`python -m webapp.agent --server URL`."""

import os
import sys

from webapp.agent.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
