"""Settings for all tests."""

from __future__ import annotations

import os

# Before torch is loaded, as the command line does: see stoker.cli.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
