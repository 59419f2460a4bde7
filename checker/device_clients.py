"""Clients of an attached device: threads with direct I/O, one request under way in each."""

import errno
import fcntl
import mmap
import os
import struct
import threading

import stamp

BLKDISCARD, BLKZEROOUT = 0x1277, 0x127F
LARGEST = 512 * stamp.SECTOR


class Clients:
    """Threads that use one device until they are stopped or it answers with errors for good."""

    def __init__(self, volume, path, loads):
        self.volume = volume
        self.path = path
        self.lock = threading.Lock()
        # One flush at a time, so that it is clear which of them is the first after a kill.
        self.flushing = threading.Lock()
        self.stopping = threading.Event()
        self.power_is_off = False
        self.excused = volume.cleared
        self.problem = None
        self.threads = [threading.Thread(target=self._work, args=(load,)) for load in loads]
        for thread in self.threads:
            thread.start()

    def stop(self, seconds):
        """Stops all threads; returns false if one hangs. Raises what a thread has raised."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(seconds)
        if self.problem:
            raise self.problem
        return not any(thread.is_alive() for thread in self.threads)

    def unanswered(self):
        """Returns the threads that wait for an answer, as text."""
        return f"{sum(thread.is_alive() for thread in self.threads)} threads"

    def _work(self, choice):
        buffer = mmap.mmap(-1, LARGEST)
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_DIRECT)
            synchronous = os.open(self.path, os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
        except OSError as problem:
            self.problem = self.problem or problem
            return
        try:
            while not self.stopping.is_set():
                self._one(choice, buffer, descriptor, synchronous)
        except Exception as problem:
            self.problem = self.problem or problem
            self.stopping.set()
        finally:
            os.close(descriptor)
            os.close(synchronous)

    def _one(self, choice, buffer, descriptor, synchronous):
        with self.lock:
            kind, first, count = choice.request()
        if kind == "read":
            self._read(buffer, descriptor, first, count)
        elif kind == "flush":
            with self.flushing:
                self._flush(descriptor)
        elif kind == "fua":
            with self.flushing:
                self._change(kind, buffer, synchronous, first, count)
        else:
            self._change(kind, buffer, descriptor, first, count)

    def _read(self, buffer, descriptor, first, count):
        book = self.volume.ledger
        size = count * stamp.SECTOR
        with self.lock:
            began = book.begin_read()
        view, offset = [memoryview(buffer)[:size]], first * stamp.SECTOR
        done = self._try("reads", lambda: os.preadv(descriptor, view, offset))
        with self.lock:
            if done:
                book.check_read(first, buffer[:size], began)
            book.end_read(began)

    def _flush(self, descriptor):
        book = self.volume.ledger
        with self.lock:
            sent = book.tick()
        done = self._try("flushes", lambda: os.fsync(descriptor))
        with self.lock:
            if done:
                book.flushed(sent, self.excused, self.volume.is_durable)
            else:
                self.excused = book.tick()

    def _change(self, kind, buffer, descriptor, first, count):
        book = self.volume.ledger
        size, offset = count * stamp.SECTOR, first * stamp.SECTOR
        with self.lock:
            change = book.send(kind in ("write", "fua"), None, first, count)
            change.fua = kind == "fua"
        if kind in ("write", "fua"):
            buffer[:size] = stamp.write(book.run, first, count, change.number, 0)
            action = lambda: os.pwritev(descriptor, [memoryview(buffer)[:size]], offset)
        else:
            code = BLKZEROOUT if kind == "zero" else BLKDISCARD
            extent = struct.pack("QQ", offset, size)
            action = lambda: fcntl.ioctl(descriptor, code, extent)
        # A synchronous write is a write and a flush.
        done = self._try("flushes" if kind == "fua" else "changes", action)
        with self.lock:
            book.end(change, done)
            if kind == "fua" and not done:
                self.excused = book.tick()

    def _try(self, kind, action):
        """Does a request; returns whether it was answered without an error."""
        try:
            action()
            return True
        except OSError as problem:
            if problem.errno not in (errno.EIO, errno.ENXIO, errno.ENODEV):
                raise
            if self.power_is_off:
                self.stopping.set()
            else:
                with self.lock:
                    self.volume.on_error(kind, problem.errno)
            return False
