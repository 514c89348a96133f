"""What a DataLoader wastes by its arguments: workers, threads, epochs, collate, pinning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stoker.measure.table import duration
from stoker.watching import table as t
from stoker.watching.facts import Facts
from stoker.watching.finding import Finding, predicted
from stoker.watching.model import Gain, Model

# Less than this share of all time in waiting, pauses, collating is not worth a word.
_NOTICEABLE: Final = 0.1


def findings(facts: Facts, model: Model) -> Iterator[Finding]:
    """Yield what is wasted by how the loader is set."""
    yield from _workers(facts, model)
    yield from _threads(facts)
    yield from _epochs(facts)
    yield from _main_collate(facts)
    yield from _prefetch(facts, model)
    yield from _transport(facts, model)
    if facts.is_loader and facts.gpu_in_use and not facts.settings.pin_memory:
        yield Finding(
            "not_pinned",
            "set pin_memory=True: copies to the GPU hold the loop up",
            "pin_memory=True, and batch.to(device, non_blocking=True)",
            {"pin_memory": False},
            why_no_gain="the time of copies to the device is not known here",
        )


def _workers(facts: Facts, model: Model) -> Iterator[Finding]:
    now, cores, best = facts.settings.num_workers, facts.cores, model.best_workers
    figures: dict[str, object] = {
        "num_workers": now,
        "cores": cores,
        "wait_share": facts.wait_share,
        "fetch_ms": 1e3 * facts.fetch_s if facts.fetch_s is not None else None,
        "blocked_share": facts.blocked_share,
    }
    if not now:
        yield from _no_workers(facts, model, figures)
        return
    if now > cores and facts.blocked_share < 0.5 and facts.is_loader:
        count = min(best or int(cores), max(int(cores), 1))
        yield Finding(
            "too_many_workers",
            f"set num_workers={count} (now {now}): {now} workers share {cores:g} cores",
            f"num_workers={count}",
            figures,
            why_no_gain="the cores set the pace either way; what is saved is memory, "
            "switches between workers and the time to the first batch",
        )
        return
    if best is not None and best > now and facts.wait_share > _NOTICEABLE and facts.is_loader:
        gain = model.gain(model.with_workers(best))
        if gain is None or gain.value > 1.05:
            gain, why = predicted(model, gain)
            yield Finding(
                "few_workers",
                f"set num_workers={best} (now {now}): "
                f"the step waits {facts.wait_share:.0%} of the time",
                f"num_workers={best}",
                figures,
                gain,
                why,
            )


def _no_workers(facts: Facts, model: Model, figures: dict[str, object]) -> Iterator[Finding]:
    if facts.wait_share < _NOTICEABLE / 2:
        return
    best = model.best_workers or max(int(facts.cores), 1)
    if not facts.is_loader and facts.blocked_share > 0.5:
        return  # it waits for somebody, perhaps for workers that cannot be seen
    gain = model.gain(model.with_workers(best)) if model.job is not None else None
    gain, why = predicted(model, gain)
    share = f"{facts.wait_share:.0%} of the time"
    if facts.is_loader:
        headline = f"set num_workers={best}: the training thread loads, {share}"
        advice = f"num_workers={best}, persistent_workers=True"
    else:
        headline = f"load in the background: next() works in the training thread, {share}"
        advice = f"iterate it in a DataLoader with num_workers={best}, or in a Stoker pipeline"
    yield Finding("no_workers", headline, advice, figures, gain, why)


def _threads(facts: Facts) -> Iterator[Finding]:
    workers = facts.settings.num_workers
    torch_threads, cv2_threads = facts.work.torch_threads, facts.work.cv2_threads
    library = "torch" if torch_threads > 1 else "OpenCV"
    threads = torch_threads if torch_threads > 1 else cv2_threads
    if not workers or threads <= 1:
        return
    crowded = workers * threads > facts.cores
    if library == "OpenCV" and not crowded:
        return
    gain, why = None, f"{facts.cores:g} cores are enough for {workers} x {threads} threads"
    total = facts.worker_cpu_s or 0.0
    if crowded and total:
        # At best their work was only waiting for one another; at worst all of it was of use.
        most = min(total / max(total - facts.library_cpu_s, 0.05 * total), float(threads))
        gain, why = Gain((1.0 + most) / 2, 1.0, most), ""
    call = "torch.set_num_threads(1)" if library == "torch" else "cv2.setNumThreads(0)"
    cores = f"{facts.cores:g} core" + ("s" if facts.cores != 1 else "")
    yield Finding(
        "threads_per_worker",
        f"{call} in each worker: {workers} workers x {threads} threads on {cores}",
        f"call {call} in worker_init_fn, and nowhere with more",
        {
            "threads_per_worker": threads,
            "library": library,
            "num_workers": workers,
            "cores": facts.cores,
            "library_cpu_ms_per_batch": 1e3 * facts.library_cpu_s,
            "worker_cpu_ms_per_batch": 1e3 * total,
        },
        gain,
        why,
    )


def _epochs(facts: Facts) -> Iterator[Finding]:
    settings = facts.settings
    epochs = [epoch for epoch in facts.loop.epochs if epoch.batches]
    if not settings.num_workers or settings.persistent_workers or len(epochs) < 2:
        return
    # With workers that stay, an epoch still begins with one batch's work.
    kept_s = min((facts.fetch_s or 0.0) + facts.receive_cpu_s, 4.0 * facts.period_s)
    saved_s = max(facts.pause_s - kept_s, 0.0)
    share = saved_s / facts.epoch_s if facts.epoch_s else 0.0
    if share < _NOTICEABLE:
        return
    each, pause = duration(1e3 * facts.epoch_s), duration(1e3 * saved_s)
    low, high = (1.0 / (1.0 - min(part * share, 0.98)) for part in (0.6, 1.0))
    yield Finding(
        "no_persistent_workers",
        f"set persistent_workers=True: epochs of {each} pause {pause} for new workers",
        "persistent_workers=True",
        {
            "epochs": len(epochs),
            "epoch_s": facts.epoch_s,
            "pause_s": facts.pause_s,
            "saved_s": saved_s,
            "pause_share": share,
        },
        Gain(1.0 / (1.0 - min(0.85 * share, 0.98)), low, high),
    )


def _main_collate(facts: Facts) -> Iterator[Finding]:
    """Batches that are put together in the loop's thread, though workers could do it."""
    if facts.is_loader and not facts.settings.num_workers:
        return
    by_samples = facts.is_loader and (
        facts.settings.batch_size is None or facts.work[t.LISTS] > 0 or facts.loop.lists > 0
    )
    spots = facts.main.spots
    looks = sum(spot.looks for spot in spots.values())
    found = {
        name: spot
        for name, spot in spots.items()
        # In a step only where samples come uncollated: models stack tensors, too.
        if spot.collating and (spot.stage != "step" or by_samples)
    }
    hits = sum(spot.looks for spot in found.values())
    if hits < 4 or hits < _NOTICEABLE * looks:
        return
    share = hits / looks
    place = max(found, key=lambda name: found[name].looks)
    error = 1.6 * (share * (1.0 - share) / looks) ** 0.5
    low, high = (1.0 / (1.0 - min(max(one, 0.0), 0.95)) for one in (share - error, share + error))
    yield Finding(
        "collate_in_main",
        f"collate in the workers: it takes {share:.0%} of the training thread, "
        f"in {place.partition(' (')[0]}",
        "give it to the DataLoader as collate_fn, with its batch_size and num_workers > 0",
        {
            "share_of_thread": share,
            "looks": looks,
            "place": place,
            "samples_come_uncollated": by_samples,
        },
        Gain(
            1.0 / (1.0 - min(share, 0.95)),
            min(low, 1.0 / (1.0 - share)) if share < 1 else low,
            high,
        ),
    )


def _prefetch(facts: Facts, model: Model) -> Iterator[Finding]:
    """Batches in flight that are too few for how much the time for one varies."""
    job, now = model.job, facts.settings.prefetch_factor
    if job is None or not job.workers or not facts.is_loader or facts.wait_share < _NOTICEABLE:
        return
    for factor in (4, 8):
        gain = model.gain(job.changed(prefetch=factor)) if factor > now else None
        if gain is not None and gain.value > 1.05:
            yield Finding(
                "low_prefetch",
                f"set prefetch_factor={factor} (now {now}): the time for a batch varies too much",
                f"prefetch_factor={factor}",
                {
                    "prefetch_factor": now,
                    "queue_fill": facts.fill,
                    "batch_p50_ms": _quantile_ms(facts, 0.5),
                    "batch_p95_ms": _quantile_ms(facts, 0.95),
                },
                gain,
            )
            return


def _quantile_ms(facts: Facts, share: float) -> float | None:
    spent = facts.work.slot("fetch").histogram.quantile_ns(share)
    return spent / 1e6 if spent is not None else None


def _transport(facts: Facts, model: Model) -> Iterator[Finding]:
    total = (facts.worker_cpu_s or 0.0) + facts.receive_cpu_s
    moved = facts.send_cpu_s + facts.receive_cpu_s
    if not facts.is_loader or not moved or moved < 0.3 * total or facts.wait_share < _NOTICEABLE:
        return
    job = model.job
    gain, why = predicted(
        model,
        model.gain(*(job.cheaper(0.0, part * moved) for part in (0.3, 0.7))) if job else None,
    )
    yield Finding(
        "heavy_transport",
        f"send less to the parent: {moved / total:.0%} of the loading CPU time is transport",
        "collate to few large tensors in collate_fn, and send bytes (uint8), not floats",
        {
            "transport_cpu_ms_per_batch": 1e3 * moved,
            "share_of_loading_cpu": moved / total,
        },
        gain,
        why,
    )
