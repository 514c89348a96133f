"""What a loader wastes on each sample: decoding, transforms, Python, slow samples, collate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stoker.measure.table import duration
from stoker.watching import table as t
from stoker.watching.facts import Facts
from stoker.watching.finding import Finding, predicted
from stoker.watching.model import Model, slow_ns, tail_of

# Share of the time that the step must wait for a slow collate to be worth a word: of few
# small samples it is always the larger part.
_HELD_UP: Final = 0.1
# Of the decoding time, saved by decoding a JPEG at a fraction of its size: at least, at most.
_DRAFT: Final = (0.5, 0.85)


def findings(facts: Facts, model: Model) -> Iterator[Finding]:
    """Yield what is wasted on each sample."""
    if facts.items < 4 or not facts.item_s:
        return
    yield from _decode(facts, model)
    yield from _slow_transform(facts, model)
    yield from _python(facts, model)
    yield from _slow_samples(facts, model)
    yield from _collate(facts, model)


def _decode(facts: Facts, model: Model) -> Iterator[Finding]:
    decoded, delivered = facts.decoded_pixels, facts.delivered_pixels
    spent = facts.own_s("decode")
    if not decoded or not delivered or decoded < 4.0 * delivered or spent < 0.2 * facts.item_s:
        return
    jpeg = facts.work[t.DECODED_JPEG] > 0.5 * facts.work[t.DECODED]
    side = max(round(delivered**0.5), 1)
    advice = "store the pictures smaller, or cut the part out while decoding"
    if jpeg:
        advice = f"image.draft('RGB', ({2 * side}, {2 * side})) right after Image.open; or {advice}"
    gain, why = predicted(model, model.saving("decode", _DRAFT))
    yield Finding(
        "oversized_decode",
        f"decode smaller: {_pixels(decoded)} are decoded for {_pixels(delivered)} used, "
        f"{spent / facts.item_s:.0%} of a sample",
        advice,
        {
            "decoded_pixels": decoded,
            "delivered_pixels": delivered,
            "ratio": decoded / delivered,
            "decode_ms": 1e3 * spent,
            "share_of_sample": spent / facts.item_s,
            "jpeg": jpeg,
        },
        gain,
        why,
    )


def _slow_transform(facts: Facts, model: Model) -> Iterator[Finding]:
    own = {name: facts.own_s(name) for name in facts.transforms}
    ranked = sorted(own, key=lambda name: -own[name])
    if len(ranked) < 2:
        return
    slow, second = ranked[:2]
    if own[slow] < 0.35 * facts.item_s or own[slow] < 2.0 * own[second]:
        return
    gain, why = predicted(model, model.saving(slow, (0.5, 0.9)))
    yield Finding(
        "slow_transform",
        f"make {slow} cheaper: it takes {own[slow] / facts.item_s:.0%} of a sample's time",
        "a cheaper variant, once per batch on the device, or its result stored with the data",
        {
            "transform": slow,
            "ms_per_sample": 1e3 * own[slow],
            "share_of_sample": own[slow] / facts.item_s,
            "next": second,
            "next_ms_per_sample": 1e3 * own[second],
        },
        gain,
        why,
    )


def _python(facts: Facts, model: Model) -> Iterator[Finding]:
    work = facts.item_s * facts.items_per_batch + facts.collate_s
    costs = {name: facts.own_s(name) for name in ("dataset", *facts.transforms)}
    costs["collate"] = facts.collate_s / facts.items_per_batch
    for name in sorted(costs, key=lambda name: -costs[name]):
        share = costs[name] * facts.items_per_batch / work if work else 0.0
        held, slot = facts.gil_share(name), facts.work.slot(name)
        if share < 0.25 or held is None or sum(held) / 2 < 0.6:
            continue
        spots = {text: spot.python for text, spot in facts.work.spots.items() if spot.stage == name}
        place = max(spots, key=lambda text: spots[text], default="")
        title = "__getitem__" if name == "dataset" else name
        gain, why = predicted(model, model.saving(name, (0.5, 0.95)))
        yield Finding(
            "python_bound",
            f"vectorise {title}: it holds the GIL {sum(held) / 2:.0%} of its time, "
            f"{share:.0%} of the work",
            f"{place or title}: replace loops in Python by NumPy, torch or a library",
            {
                "stage": name,
                "gil_share": list(held),
                "share_of_work": share,
                "hot_place": place,
                "looks": slot.looks,
            },
            gain,
            why,
        )
        return


def _slow_samples(facts: Facts, model: Model) -> Iterator[Finding]:
    share, of_time = tail_of(facts)
    slot = facts.work.slot("dataset")
    if not 0.0 < share <= 0.1 or of_time < 0.15 or share * slot.histogram.total < 2:
        return
    middle, over = slot.histogram.quantile_ns(0.5) or 0.0, slow_ns(facts) or 0.0
    slowest = facts.work.slowest
    named = [str(index) for index, spent in slowest if index >= 0 and spent > over][:5]
    even = model.without_slow_samples()
    gain, why = predicted(model, model.gain(even) if even is not None else None)
    advice = "prepare these samples beforehand"
    if named:
        advice += f" (slowest: {', '.join(named)})"
    if facts.settings.num_workers:
        factor = 2 * facts.settings.prefetch_factor
        advice += f"; meanwhile prefetch_factor={factor}"
        advice += ", in_order=False if order may change" if facts.settings.in_order else ""
    yield Finding(
        "slow_samples",
        f"1 sample in {round(1 / share)} is slow: up to {duration(slot.longest_ns / 1e6)}, "
        f"the median is {duration(middle / 1e6)}",
        advice,
        {
            "share_of_samples": share,
            "share_of_time": of_time,
            "median_ms": middle / 1e6,
            "longest_ms": slot.longest_ns / 1e6,
            "slowest": [{"index": index, "ms": spent / 1e6} for index, spent in slowest],
        },
        gain,
        why,
    )


def _collate(facts: Facts, model: Model) -> Iterator[Finding]:
    share, _ = facts.share_of_fetch("collate")
    if share < 0.35 or facts.wait_share < _HELD_UP:
        return
    gain, why = predicted(model, model.saving("collate", (0.3, 0.8)))
    yield Finding(
        "slow_collate",
        f"make collate cheaper: it takes {share:.0%} of the work on a batch",
        "collate into one preallocated tensor; leave conversions to the device",
        {"collate_ms": 1e3 * facts.collate_s, "share_of_batch": share},
        gain,
        why,
    )


def _pixels(count: float) -> str:
    return f"{count / 1e6:.2g} MP" if count >= 1e5 else f"{count / 1e6:.2f} MP"
