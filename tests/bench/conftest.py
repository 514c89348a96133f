"""Lets `import bench` find the benches: pytest's `pythonpath` gives this folder that name too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
