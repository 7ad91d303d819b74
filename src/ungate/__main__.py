"""``python -m ungate``."""

import sys

from ungate.cli.main import main

sys.exit(main())
