"""``python -m gssc`` is the command ``gssc``."""

import sys

from gssc.cli.main import main

sys.exit(main())
