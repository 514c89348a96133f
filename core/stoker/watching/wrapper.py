"""What `stoker.watch` returns: the loader, with a watch on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from stoker.errors import UsageError, describe_given
from stoker.watching import table as t
from stoker.watching.inner import loaders_of
from stoker.watching.iteration import Iteration
from stoker.watching.loops import Loop
from stoker.watching.meter import COST, Meter
from stoker.watching.probe import Probe, Tables
from stoker.watching.sampler import Sampler
from stoker.watching.table import Table

if TYPE_CHECKING:
    from stoker.watching.report import WatchReport


class Watch:
    """All that is known of one watched loader."""

    def __init__(self, loader: Iterable[Any], cost: float) -> None:
        self.loader: Any = loader
        self.loop = Loop()
        self.tables = Tables()
        main = Table.private()
        main.cells[t.STARTED], main.cells[t.RUNQUEUE_NS] = 1, -1
        self.main = main
        self._meter = Meter(main, cost)
        self.loaders: list[Any] = loaders_of(loader)
        self.running: Iteration | None = None
        """The pass of an iterator whose batches are asked for one by one."""

    def begin(self) -> Iteration:
        """Begin a pass."""
        self.loaders = loaders_of(self.loader) or self.loaders
        probe = Probe(self.loader, self.loaders, self._meter, self.tables)
        processes = 1 + max((loader.num_workers for loader in self.loaders), default=0)
        sampler = Sampler(self._meter, worker=False, processes=processes)
        return Iteration(self.loop, self._meter, sampler, probe)

    def report(self) -> WatchReport:
        """Return what was found up to now."""
        from stoker.watching.gather import gather
        from stoker.watching.report import report_of

        return report_of(gather(self))


class Watched:
    """A loader that is watched. Behaves as the loader does; attributes are the loader's own.

    Its own are `report()`, which says what the loader wastes and what to change.
    """

    __slots__ = ("__weakref__", "_stoker_watch")

    def __init__(self, loader: Any, cost: float) -> None:
        object.__setattr__(self, "_stoker_watch", Watch(loader, cost))

    def report(self) -> WatchReport:
        """Return what was found up to now; print it to read it."""
        return watch_of(self).report()

    def __iter__(self) -> Iterator[Any]:
        return watch_of(self).begin()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(watch_of(self).loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(watch_of(self).loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(watch_of(self).loader, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(watch_of(self).loader, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(watch_of(self).loader), "report"})

    def __repr__(self) -> str:
        return f"stoker.watch({watch_of(self).loader!r})"

    def __bool__(self) -> bool:
        return bool(watch_of(self).loader)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # A copy, or one that is sent to another process, is the loader without a watch.
        return _itself, (watch_of(self).loader,)


def _itself(loader: Any) -> Any:
    return loader


def watch_of(watched: Any) -> Watch:
    """Return the watch of a watched loader."""
    watch: Watch = object.__getattribute__(watched, "_stoker_watch")
    return watch


# Looked up on the type, so a watched loader must have those that the loader has, and no more.
_OPERATORS: Final = (
    "__len__", "__getitem__", "__setitem__", "__contains__", "__reversed__", "__length_hint__",
    "__next__", "__enter__", "__exit__", "__call__",
)  # fmt: skip
_classes: dict[frozenset[str], type[Watched]] = {}


def watched_class(loader: type) -> type[Watched]:
    """Return the class for watched loaders of a type."""
    has = {name for base in loader.__mro__ for name in _OPERATORS if name in base.__dict__}
    names = frozenset(has)
    found = _classes.get(names)
    if found is None:
        body = {name: _next if name == "__next__" else _passing(name) for name in names}
        found = type("Watched", (Watched,), {"__slots__": (), "__module__": __name__, **body})
        _classes[names] = found
    return found


def _passing(name: str) -> Any:
    def operator(self: Any, *args: Any) -> Any:
        loader = watch_of(self).loader
        result = getattr(type(loader), name)(loader, *args)
        return self if result is loader else result

    operator.__name__ = operator.__qualname__ = name
    return operator


def _next(self: Any) -> Any:
    """Return the next batch of an iterator that is watched: all of it is one pass."""
    watch = watch_of(self)
    if watch.running is None:
        watch.running = watch.begin()
    return next(watch.running)


def watch(loader: Any, *, cost: float = COST) -> Any:
    """Watch a loader: returns it, to be used as before, with a `report()`.

    Batches, their order and all errors are the loader's own. A torch DataLoader is also
    watched inside its workers.

    Args:
        loader: a torch DataLoader or any other iterable of batches.
        cost: share of the loader's CPU time that may be spent; more finds out more in a
            short time.

    Returns:
        the watched loader, with all attributes of the loader itself.

    Raises:
        UsageError: it cannot be iterated.
    """
    if issubclass(type(loader), Watched):
        return loader
    cls = type(loader)
    if getattr(cls, "__iter__", None) is None and getattr(cls, "__getitem__", None) is None:
        raise UsageError(
            f"stoker.watch takes a loader that can be iterated, not {describe_given(loader)}; "
            "give it the DataLoader, or the iterable, of your loop"
        )
    return watched_class(cls)(loader, cost)
