"""A disk with a volatile cache: one file of a FUSE file system, in a process of its own.

A write is in the volatile cache when it is answered, and durable when a flush that began afterwards
has succeeded. A power cut keeps of every unit of 4 KiB any one of the versions since then. Requests
take their time, are done in any order, and may be done after the death of the process that sent
them. A flush that fails gives up some of the writes that it covers: as in Linux, reads show
them until the power is cut, and no later flush makes them durable.

The process that starts the disk steers it by lines on a socket (`Remote`).
"""

import errno
import heapq
import json
import mmap
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import time

import fuse

UNIT = 4096


class Cache:
    """The disk's bytes: those that reads show, those that are durable, the versions in between."""

    def __init__(self, image, lie, choice):
        self.image = image
        self.durable = bytearray(image[:])
        # Of each unit that has changed: pairs of the number of the change and the unit's bytes.
        # `None` in the place of the bytes: given up by a flush that failed.
        self.versions = {}
        self.changes = 0
        self.lie = lie
        self.choice = choice
        self.late_mark = 0

    def write(self, offset, data):
        """Takes bytes over, and each changed unit as a version."""
        if self.lie == "misplace" and self.choice.random() < 0.02:
            offset = max(0, offset - 512)
        if self.lie == "forget" and self.choice.random() < 0.02:
            return
        if self.lie == "tear" and len(data) >= 1024 and self.choice.random() < 0.05:
            data = data[: len(data) // 1024 * 512]
        end = offset + len(data)
        self.image[offset:end] = data
        self.changes += 1
        for unit in range(offset // UNIT, -(-end // UNIT)):
            version = bytes(self.image[unit * UNIT : (unit + 1) * UNIT])
            self.versions.setdefault(unit, []).append((self.changes, version))

    def flush(self, mark):
        """Makes durable all changes up to the one with this number."""
        if self.lie == "no-flush":
            return
        if self.lie == "late-flush":
            mark, self.late_mark = self.late_mark, mark
        for unit, versions in list(self.versions.items()):
            covered = [bytes_ for number, bytes_ in versions if number <= mark]
            if covered and covered[-1] is not None:
                self.durable[unit * UNIT : (unit + 1) * UNIT] = covered[-1]
            left = versions[len(covered) :]
            # A unit that was given up stays so until it is written again.
            if covered and covered[-1] is None and not left:
                continue
            if left:
                self.versions[unit] = left
            else:
                del self.versions[unit]

    def give_up(self):
        """Loses a random part of the changes that are not durable, as a failed flush does."""
        for unit, versions in self.versions.items():
            if self.choice.random() < 0.7:
                self.versions[unit] = [(number, None) for number, _ in versions]

    def cut(self):
        """Cuts the power: each unit keeps one of its versions."""
        style = self.choice.random()
        for unit, versions in self.versions.items():
            kept = [bytes_ for _, bytes_ in versions if bytes_ is not None]
            older = [None, *kept[:-1]]
            if style < 0.2 or not kept:
                chosen = None
            elif style < 0.4:
                chosen = kept[-1]
            elif style < 0.7:
                chosen = self.choice.choice([None, *kept])
            else:
                chosen = kept[-1] if self.choice.random() < style else self.choice.choice(older)
            if chosen is not None:
                self.durable[unit * UNIT : (unit + 1) * UNIT] = chosen
        self.versions.clear()
        self.late_mark = 0
        self.image[:] = bytes(self.durable)


class Disk:
    """Serves the file: receives requests, does each at its time, obeys its owner."""

    def __init__(self, descriptor, control, cache, choice):
        self.descriptor = descriptor
        self.control = control
        self.cache = cache
        self.choice = choice
        self.queue = []
        self.order = 0
        self.flushes_to_fail = 0
        self.trap = None
        self.held = None
        self.slowness = 1.0
        self.counts = {"reads": 0, "writes": 0, "zeroes": 0, "flushes": 0, "failed": 0}
        self.last_change = 0
        self.has_power = True
        self.commands = b""

    def run(self):
        """Serves until the control socket ends."""
        selector = selectors.DefaultSelector()
        selector.register(self.descriptor, selectors.EVENT_READ, self.receive)
        selector.register(self.control, selectors.EVENT_READ, self.obey)
        os.set_blocking(self.descriptor, False)
        while True:
            for key, _ in selector.select(self.do_due()):
                key.data()

    def do_due(self):
        """Does the actions that are due; returns the time until the next one."""
        while self.queue:
            wait = self.queue[0][0] - time.monotonic()
            if wait > 0:
                return wait
            _, _, action, request = heapq.heappop(self.queue)
            action(request)
        return None

    def later(self, delay, action, request):
        """Does `action` after a delay."""
        self.order += 1
        heapq.heappush(self.queue, (time.monotonic() + delay, self.order, action, request))

    def delay(self):
        """Returns a time for one request: mostly none, now and then long."""
        luck = self.choice.random()
        if luck < 0.6:
            return 0
        if luck < 0.98:
            return self.choice.random() * 0.004 * self.slowness
        return self.choice.random() * 0.08 * self.slowness

    def receive(self):
        """Takes requests from the kernel until there is none."""
        for _ in range(64):
            try:
                data = os.read(self.descriptor, fuse.BUFFER_SIZE)
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno in (errno.ENOENT, errno.EINTR):
                    continue
                sys.exit(0)
            request = fuse.Request(memoryview(data))
            if not fuse.answer_metadata(self.descriptor, request, len(self.cache.image)):
                self.begin(request)

    def begin(self, request):
        """Puts a request on its way."""
        if not self.has_power:
            fuse.answer(self.descriptor, request, error=errno.EIO)
            return
        if request.operation == fuse.READ:
            self.later(self.delay() / 4, self.read, request)
            return
        kind = "flush" if request.operation == fuse.FSYNC else "write"
        if kind == "flush":
            request.mark = self.cache.changes
        if self.trap and self.trap["kind"] == kind:
            self.trap["count"] -= 1
            if self.trap["count"] <= 0:
                self.trap = None
                self.held = (kind, request)
                self.report({"event": "trap", "kind": kind})
                return
        action = self.flush if kind == "flush" else self.change
        self.later(self.delay() * (2 if kind == "flush" else 1), action, request)

    def read(self, request):
        """Answers a read."""
        offset, size = fuse.read_range(request)
        self.counts["reads"] += 1
        fuse.answer(self.descriptor, request, bytes(self.cache.image[offset : offset + size]))

    def change(self, request):
        """Does a write, or zeroes a range, and answers."""
        self.last_change = time.monotonic()
        if request.operation == fuse.WRITE:
            offset, data = fuse.write_data(request)
            self.counts["writes"] += 1
            self.cache.write(offset, data)
            fuse.answer(self.descriptor, request, len(data).to_bytes(8, "little"))
            return
        offset, size, mode = fuse.fallocate_range(request)
        if mode & (fuse.PUNCH_HOLE | fuse.ZERO_RANGE):
            size = max(0, min(size, len(self.cache.image) - offset))
            self.counts["zeroes"] += 1
            self.cache.write(offset, bytes(size))
        fuse.answer(self.descriptor, request)

    def flush(self, request):
        """Makes durable all changes from before the flush began, or fails."""
        self.last_change = time.monotonic()
        if self.flushes_to_fail:
            self.flushes_to_fail -= 1
            self.fail(request)
            return
        self.counts["flushes"] += 1
        self.cache.flush(request.mark)
        fuse.answer(self.descriptor, request)

    def fail(self, request):
        """Fails a flush, and gives up some of the changes that it covers."""
        self.counts["failed"] += 1
        self.cache.give_up()
        fuse.answer(self.descriptor, request, error=errno.EIO)

    def release(self, fails, delay):
        """Lets the trapped request go on, a flush to its failure where that is asked for."""
        if not self.held:
            return
        (kind, request), self.held = self.held, None
        if kind == "write":
            self.later(delay, self.change, request)
            return
        if fails:
            self.flushes_to_fail += 1
        self.later(delay, self.flush, request)

    def cut(self):
        """Cuts the power. Some of the requests on their way land; all others get an error."""
        self.trap = None
        self.release(False, 0)
        for _, _, action, request in sorted(self.queue):
            lands = action == self.change and self.choice.random() < 0.5
            if lands:
                self.change(request)
            else:
                fuse.answer(self.descriptor, request, error=errno.EIO)
        self.queue.clear()
        self.flushes_to_fail = 0
        self.cache.cut()

    def quiet_seconds(self):
        """Returns the time since a change or a flush was under way."""
        is_busy = self.held or any(action != self.read for _, _, action, _ in self.queue)
        return 0 if is_busy else time.monotonic() - self.last_change

    def report(self, message):
        """Sends a line to the owner."""
        self.control.sendall(json.dumps(message).encode() + b"\n")

    def obey(self):
        """Does the commands that the owner has sent."""
        received = self.control.recv(65536)
        if not received:
            sys.exit(0)
        *lines, self.commands = (self.commands + received).split(b"\n")
        for line in lines:
            self.do(json.loads(line))

    def do(self, command):
        """Does one command."""
        verb = command["verb"]
        if verb == "trap":
            self.trap = command
        elif verb == "untrap":
            self.trap = None
            self.release(False, 0)
        elif verb == "release":
            self.release(command["fails"], command["delay"])
        elif verb == "fail":
            self.flushes_to_fail = command["count"]
        elif verb == "slow":
            self.slowness = command["factor"]
        elif verb == "cut":
            self.has_power = False
            self.cut()
        elif verb == "power":
            self.has_power = True
        if verb in ("cut", "counts"):
            self.report({"event": verb, "quiet": self.quiet_seconds(), **self.counts})


class Remote:
    """The disk as its owner has it: a process, its file, and the bytes that reads show."""

    def __init__(self, directory, size, seed, lie):
        self.mount_point = os.path.join(directory, "mount")
        os.makedirs(self.mount_point)
        self.path = os.path.join(self.mount_point, fuse.NAME.decode())
        image_path = os.path.join(directory, "image")
        with open(image_path, "wb") as file:
            file.truncate(size)
        ours, theirs = socket.socketpair()
        arguments = [image_path, self.mount_point, str(theirs.fileno()), str(seed), lie]
        self.process = subprocess.Popen(
            [sys.executable, "-B", os.path.abspath(__file__), *arguments],
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        self.control = ours
        self.lines = ours.makefile("rb")
        self.trapped = []
        self._read_until("ready")
        with open(image_path, "rb") as file:
            self.image = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)

    def _read_until(self, event):
        while True:
            line = self.lines.readline()
            if not line:
                raise RuntimeError("the disk has ended")
            message = json.loads(line)
            if message["event"] == event:
                return message
            self.trapped.append(message)

    def command(self, verb, **arguments):
        """Sends a command; returns the answer of those that have one."""
        self.control.sendall(json.dumps({"verb": verb, **arguments}).encode() + b"\n")
        return self._read_until(verb) if verb in ("cut", "counts") else None

    def wait_for_trap(self):
        """Reads the report of a trap, which the control socket has announced."""
        if not self.trapped:
            self.trapped.append(json.loads(self.lines.readline()))
        return self.trapped.pop(0)

    def close(self):
        """Ends the disk and its file system."""
        fuse.unmount(self.mount_point)
        self.control.close()
        self.lines.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def main():
    """Serves a disk; started by `Remote`."""
    image_path, mount_point, control, seed, lie = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(image_path, "r+b") as file:
        image = mmap.mmap(file.fileno(), 0)
    choice = random.Random(int(seed))
    descriptor = fuse.mount(mount_point)
    owner = socket.socket(fileno=int(control))
    disk = Disk(descriptor, owner, Cache(image, lie, choice), choice)
    disk.report({"event": "ready"})
    disk.run()


if __name__ == "__main__":
    main()
