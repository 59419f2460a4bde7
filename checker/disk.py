"""A disk with a volatile cache, in a process of its own: a file, or an export over NBD.

A write is in the volatile cache when it is answered, and durable when a flush that began afterwards
has succeeded. A power cut keeps of every unit of 4 KiB any one of the versions since then. Requests
take their time, are done in any order, and may be done after the death of the process that sent
them. A flush that fails gives up some of the writes that it covers: as in Linux, reads show
them until the power is cut, and no later flush makes them durable.

The process that starts the disk steers it by lines on a socket (`Remote`). How requests arrive is
the matter of `file_disk.py` and `export_disk.py`.
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

from cache import Cache

READ, CHANGE, FLUSH = "read", "write", "flush"
# Commands with an answer. Those that end a trap have one, so that no report of the trap comes later
# and is taken for that of the next one.
ENDS_TRAP = ("cut", "release", "untrap")
ANSWERED = (*ENDS_TRAP, "counts")


class Request:
    """A request to the disk. How it is answered depends on how it has arrived."""

    def __init__(self, kind, offset=0, size=0, data=None, fua=False):
        self.kind = kind
        self.offset = offset
        self.size = size
        # The bytes of a change.
        self.data = data
        # Whether the answer promises that the change is durable.
        self.fua = fua
        # Of a flush: the number of the last change that it covers.
        self.mark = 0

    def answer(self, data=b"", error=0):
        """Answers the request, if its sender can still be reached."""
        raise NotImplementedError


class Disk:
    """Does each request at its time, and obeys its owner."""

    def __init__(self, control, cache, choice):
        self.control = control
        self.cache = cache
        self.choice = choice
        self.selector = selectors.DefaultSelector()
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
        self.selector.register(self.control, selectors.EVENT_READ, self.obey)
        self.report({"event": "ready"})
        while True:
            for key, _ in self.selector.select(self.do_due()):
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

    def begin(self, request):
        """Puts a request on its way."""
        if not self.has_power:
            request.answer(error=errno.EIO)
            return
        if request.kind == READ:
            self.later(self.delay() / 4, self.read, request)
            return
        if request.kind == FLUSH:
            request.mark = self.cache.changes
        if self.trap and self.trap["kind"] == request.kind:
            self.trap["count"] -= 1
            if self.trap["count"] <= 0:
                self.trap = None
                self.held = request
                self.report({"event": "trap", "kind": request.kind})
                return
        action = self.flush if request.kind == FLUSH else self.change
        self.later(self.delay() * (2 if request.kind == FLUSH else 1), action, request)

    def read(self, request):
        """Answers a read."""
        self.counts["reads"] += 1
        end = request.offset + request.size
        request.answer(bytes(self.cache.image[request.offset : end]))

    def change(self, request):
        """Does a write, or zeroes a range, and answers."""
        self.last_change = time.monotonic()
        if request.data is None:
            size = max(0, min(request.size, len(self.cache.image) - request.offset))
            self.counts["zeroes"] += 1
            data = bytes(size)
        else:
            self.counts["writes"] += 1
            data = request.data
        self.cache.write(request.offset, data)
        if request.fua:
            self.cache.keep(request.offset, len(data))
        request.answer()

    def flush(self, request):
        """Makes durable all changes from before the flush began, or fails."""
        self.last_change = time.monotonic()
        if self.flushes_to_fail:
            self.flushes_to_fail -= 1
            self.fail(request)
            return
        self.counts["flushes"] += 1
        self.cache.flush(request.mark)
        request.answer()

    def fail(self, request):
        """Fails a flush, and gives up some of the changes that it covers."""
        self.counts["failed"] += 1
        self.cache.give_up()
        request.answer(error=errno.EIO)

    def release(self, fails, delay):
        """Ends the trap. Lets its request go on, a flush to its failure where that is asked for."""
        self.trap = None
        if not self.held:
            return
        request, self.held = self.held, None
        if request.kind == CHANGE:
            self.later(delay, self.change, request)
            return
        # This flush, not the next one: over an export, a later daemon may flush beside it.
        self.later(delay, self.fail if fails else self.flush, request)

    def cut(self):
        """Cuts the power. Some of the requests on their way land; all others get an error."""
        self.release(False, 0)
        for _, _, action, request in sorted(self.queue):
            lands = action == self.change and self.choice.random() < 0.5
            if lands:
                self.change(request)
            else:
                request.answer(error=errno.EIO)
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
        if verb in ANSWERED:
            held = self.held.kind if self.held else None
            state = {"quiet": self.quiet_seconds(), "held": held, "queue": len(self.queue)}
            self.report({"event": verb, **state, **self.counts})


class Remote:
    """The disk as its owner has it: a process, and the bytes that reads show."""

    def __init__(self, script, place, directory, size, seed, lie):
        image_path = os.path.join(directory, "image")
        with open(image_path, "wb") as file:
            file.truncate(size)
        ours, theirs = socket.socketpair()
        arguments = [image_path, place, str(theirs.fileno()), str(seed), lie]
        self.process = subprocess.Popen(
            [sys.executable, "-B", script, *arguments],
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
        answer = self._read_until(verb) if verb in ANSWERED else None
        if verb in ENDS_TRAP:
            self.trapped.clear()
        return answer

    def wait_for_trap(self):
        """Reads the report of a trap, which the control socket has announced."""
        if not self.trapped:
            self.trapped.append(json.loads(self.lines.readline()))
        return self.trapped.pop(0)

    def close(self):
        """Ends the disk."""
        self.control.close()
        self.lines.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def serve(serves):
    """Runs the process of a disk. `serves` makes it of its place, and of a disk's arguments."""
    image_path, place, control, seed, lie = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(image_path, "r+b") as file:
        image = mmap.mmap(file.fileno(), 0)
    choice = random.Random(int(seed))
    owner = socket.socket(fileno=int(control))
    serves(place, owner, Cache(image, lie, choice), choice).run()
