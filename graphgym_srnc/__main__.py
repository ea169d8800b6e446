"""``python -m graphgym_srnc``, the same as ``graphgym-srnc``."""

from __future__ import annotations

import sys

from graphgym_srnc.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
