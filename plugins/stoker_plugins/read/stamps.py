"""What tells files from other files without reading them: path, size and time of change."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable


def stamp(paths: Iterable[str]) -> str:
    """Return a digest of the paths, sizes and times of change of files, in order.

    A file costs a call of `stat`: some microseconds from the system's cache, and a round trip
    each on storage over a network. A file that is gone counts as such.
    """
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        digest.update(os.fsencode(path))
        try:
            now = os.stat(path)
        except OSError:
            digest.update(b"\0gone\0")
        else:
            digest.update(b"\0%d %d\0" % (now.st_size, now.st_mtime_ns))
    return digest.hexdigest()
