"""Holds torch's intra-op threads to one in each worker.

Workers are the parallelism; a pool of threads inside each would fight them for cores.
"""

from __future__ import annotations

import sys
import threading

_LOCK = threading.Lock()


def hold_to_one_thread() -> None:
    """Let torch use one thread in the calling thread, and as many as before in all others.

    Does nothing where torch is not loaded.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    with _LOCK:
        default = torch.get_num_threads()  # a new thread takes over the process's default
        if default == 1:
            return
        # Setting it changes this thread, and the default of threads that have not asked
        # yet. Asking makes this thread keep it when the default is put back elsewhere.
        torch.set_num_threads(1)
        torch.get_num_threads()
        restorer = threading.Thread(target=torch.set_num_threads, args=(default,))
        restorer.start()
        restorer.join()
