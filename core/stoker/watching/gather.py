"""From a watch to its facts: what was measured, and what the loader is set to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from stoker.measure import host
from stoker.watching.facts import Facts, Settings
from stoker.watching.figures import Figures

if TYPE_CHECKING:
    from stoker.watching.wrapper import Watch


def gather(watch: Watch) -> Facts:
    """Return what a watch has measured up to now."""
    main = Figures()
    main.add(watch.main)
    settings = settings_of(watch)
    work = watch.tables.read() if settings.num_workers else main
    cautions = []
    if watch.tables.unmetered:
        cautions.append("the workers were started before watch(): what they do is unknown")
    if work.faults:
        cautions.append(f"workers could not be metered: {work.faults[0]}")
    torch = sys.modules.get("torch")
    gpu = torch is not None and torch.cuda.is_initialized()
    facts = Facts(settings, host.cores(), watch.loop, work, main, gpu, cautions)
    if facts.others_cores > 0.3 * facts.cores:
        cautions.append(f"others used {facts.others_cores:.1f} of {facts.cores:g} cores meanwhile")
    return facts


def settings_of(watch: Watch) -> Settings:
    """Return what a watched loader is set to, or the DataLoader behind it."""
    if not watch.loaders:
        return Settings(kind="iterable")
    loader: Any = max(watch.loaders, key=lambda one: one.num_workers)
    return Settings(
        "DataLoader" if loader is watch.loader else "iterable",
        loader.num_workers,
        loader.prefetch_factor or 2,
        loader.persistent_workers,
        loader.pin_memory,
        getattr(loader, "in_order", True),
        loader.batch_size,
    )
