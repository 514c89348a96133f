"""Settings for all tests."""

from __future__ import annotations

import os
import signal

# Before torch is loaded, as the command line does: see stoker.cli.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# A background job comes with Ctrl-C ignored, and would hand that on to all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
