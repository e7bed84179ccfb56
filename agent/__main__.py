"""`python -m agent` and the console script `hosting-agent`."""

import sys

from agent.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
