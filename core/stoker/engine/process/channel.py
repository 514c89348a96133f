"""Messages between a worker's thread and its child: one socket, one frame after another.

A frame: lengths, then a head (what becomes of shared slots, sizes of buffers), the
pickle, and the buffers that did not go through shared memory.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stoker.engine.process.pickling import dumps
from stoker.engine.process.shared import Handed, Slots, Views

_LENGTHS = struct.Struct("<QQ")
# From here on a view of shared memory is cheaper than two copies through the socket.
SHARED_BYTES = 16 << 10
# A socket takes three times as much (212,992 bytes) before it lets the sender wait.
FITTING_BYTES = 32 << 10
_MOST_PARTS = 512  # of one call; the system takes 1,024


class _Head(NamedTuple):
    freed: list[int]
    retired: list[int]
    handed: Handed | None
    sizes: tuple[int, ...]
    """Of buffers that follow in the frame."""


class UnreadableError(Exception):
    """A whole message came, and what it holds cannot be made here."""


class Channel:
    """One end. Used by one thread.

    Args:
        end: the socket, which the channel closes.
        bound: bytes of shared memory that may be used in each direction.
    """

    def __init__(self, end: socket.socket, bound: int) -> None:
        self.socket = end
        self._slots, self._views = Slots(2 * bound), Views(bound)
        self.make_readable: Callable[[bytearray], bool] = lambda message: False
        """Asked once about a message that cannot be read; whether to try again."""

    @property
    def refused(self) -> str:
        """Why arrays go through the socket, "" while they need not."""
        return self._slots.refused

    def pack(self, message: Any) -> tuple[memoryview, list[memoryview]]:
        """Pickle a message; raises whatever that raises."""
        return dumps(message)

    def post(self, packed: tuple[memoryview, list[memoryview]], *, must_fit: bool = False) -> bool:
        """Send a packed message; return whether it was sent.

        Args:
            packed: what `pack` returned.
            must_fit: do not send it where the socket may have no room for it right now.

        Raises:
            EOFError: the other side is gone.
            TimeoutError: it does not take it.
        """
        body, buffers = packed
        handed, fd = None, None
        size = sum(buffer.nbytes for buffer in buffers)
        if must_fit and body.nbytes > FITTING_BYTES:
            return False
        if size >= SHARED_BYTES:
            handed, fd = self._slots.put(buffers)
            if must_fit and handed is None:
                return False
        spilled = buffers if handed is None else []
        retired, self._slots.retired = self._slots.retired, []
        sizes = tuple(buffer.nbytes for buffer in spilled)
        head = pickle.dumps(_Head(self._views.freed(), retired, handed, sizes), 5)
        lengths = _LENGTHS.pack(len(head), body.nbytes)
        try:
            self._send([memoryview(lengths), memoryview(head), body, *spilled], fd)
        except ConnectionError as error:
            raise EOFError from error
        finally:
            if fd is not None:
                os.close(fd)
        return True

    def send(self, message: Any) -> None:
        """Pack and post."""
        self.post(self.pack(message))

    def receive(self) -> Any:
        """Wait for the next message.

        Raises:
            EOFError: the other side is gone.
            TimeoutError: it says nothing.
            UnreadableError: something in the message cannot be made here.
        """
        try:
            lengths, fd = self._receive_start()
            head_size, body_size = _LENGTHS.unpack(lengths)
            head: _Head = pickle.loads(self._exactly(head_size))
            body = self._exactly(body_size)
            buffers: list[Any] = [self._exactly(size) for size in head.sizes]
        except ConnectionError as error:
            raise EOFError from error
        try:
            self._slots.came_back(head.freed)
            self._views.forget(head.retired)
            if head.handed is not None:
                buffers = [*self._views.get(head.handed, fd)]
        except OSError as error:  # no descriptor or no mapping can be had here
            raise UnreadableError(str(error)) from error
        finally:
            if fd is not None:
                os.close(fd)
        try:
            try:
                return pickle.loads(body, buffers=buffers)
            except Exception:
                if not self.make_readable(body):
                    raise
            return pickle.loads(body, buffers=buffers)
        except Exception as error:
            raise UnreadableError(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Close the socket. Views that are still used stay."""
        self.socket.close()

    def _send(self, parts: Sequence[memoryview], fd: int | None) -> None:
        left = [part.cast("B") for part in parts if part.nbytes]
        extra = [] if fd is None else [_rights(fd)]
        while left:
            sent = self.socket.sendmsg(left[:_MOST_PARTS], extra)
            extra = []
            while left and sent >= left[0].nbytes:
                sent -= left.pop(0).nbytes
            if sent:
                left[0] = left[0][sent:]

    def _receive_start(self) -> tuple[bytearray, int | None]:
        start = bytearray(_LENGTHS.size)
        room = socket.CMSG_SPACE(struct.calcsize("i"))
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        got, rights, _, _ = self.socket.recvmsg_into([start], room, flags)
        if not got:
            raise EOFError
        fd = None
        for level, kind, data in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS) and len(data) >= 4:
                (fd,) = struct.unpack_from("i", data)
        self._fill(memoryview(start)[got:])
        return start, fd

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        self._fill(memoryview(data))
        return data

    def _fill(self, view: memoryview) -> None:
        while view.nbytes:
            got = self.socket.recv_into(view)
            if not got:
                raise EOFError
            view = view[got:]


def _rights(fd: int) -> tuple[int, int, bytes]:
    return socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd)
