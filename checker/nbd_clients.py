"""Clients over NBD, by libnbd: several requests under way on each connection."""

import errno
import select
import time

import nbd

import stamp
from ledger import Violation

GONE = (errno.ENOTCONN, errno.ESHUTDOWN, errno.EPIPE, errno.ECONNRESET)
DEPTH = 6
ERRORS_OF = {"read": "reads", "flush": "flushes", "change": "changes"}
PATIENCE_SECONDS = 60


class Connection:
    """One connection, and its requests that are not answered yet."""

    def __init__(self, volume, number, choice):
        self.volume = volume
        self.number = number
        self.choice = choice
        self.handle = connect(volume, PATIENCE_SECONDS)
        self.in_flight = set()
        self.finished = []
        self.is_flushing = False
        # Changes before this moment are promised by no flush of this connection.
        self.excused = volume.cleared

    def is_alive(self):
        """Returns whether the connection takes requests."""
        return self.handle.aio_is_ready() or self.handle.aio_is_processing()

    def fill(self):
        """Sends requests until enough are under way."""
        while len(self.in_flight) < DEPTH and self.is_alive():
            kind, first, count = self.choice.request()
            if kind == "flush" and self.is_flushing:
                kind = "read"
            # libnbd refuses what the server does not offer: an export without trim has no trim.
            if kind == "trim" and not self.handle.can_trim():
                kind = "zero"
            if kind == "zero" and not self.handle.can_zero():
                kind = "write"
            try:
                self.send(kind, first, count)
            except nbd.Error:
                return

    def send(self, kind, first, count):
        """Sends one request."""
        handle, book = self.handle, self.volume.ledger
        offset, size = first * stamp.SECTOR, count * stamp.SECTOR
        if kind == "read":
            began, buffer = book.begin_read(), nbd.Buffer(size)
            done = self._on_end(kind, (first, began, buffer))
            handle.aio_pread(buffer, offset, done)
        elif kind == "flush":
            self.is_flushing = True
            done = self._on_end(kind, book.tick())
            if self.volume.lie == "proxy-flush":
                done(None)
                return
            handle.aio_flush(done)
        else:
            fua = kind == "fua" or (kind != "write" and self.choice.random.random() < 0.05)
            is_write = kind in ("write", "fua")
            change = book.send(is_write, self.number, first, count)
            change.fua = fua
            done = self._on_end("change", change)
            self._send_change(kind, change, offset, size, done)

    def _send_change(self, kind, change, offset, size, done):
        flags = nbd.CMD_FLAG_FUA if change.fua else 0
        if self.volume.lie == "proxy-write" and self.choice.random.random() < 0.01:
            done(None)
        elif kind == "zero":
            hole = self.choice.random.random() < 0.5
            flags |= 0 if hole else nbd.CMD_FLAG_NO_HOLE
            self.handle.aio_zero(size, offset, done, flags)
        elif kind == "trim":
            self.handle.aio_trim(size, offset, done, flags)
        else:
            run, number = self.volume.ledger.run, change.number
            data = stamp.write(run, change.first, change.count, number, self.number)
            buffer = nbd.Buffer.from_bytearray(bytearray(data))
            self.handle.aio_pwrite(buffer, offset, done, flags)

    def _on_end(self, kind, request):
        token = (kind, request)
        self.in_flight.add(token)

        def done(error):
            self.finished.append((token, error.value if error is not None else 0))
            return 1

        return done

    def unanswered(self):
        """Returns the requests without an answer, as text."""
        requests = [f"{kind} {shown(request)}" for kind, request in self.in_flight]
        return f"connection {self.number}: {', '.join(requests) or 'none'}"

    def settle(self):
        """Enters the answers into the ledger."""
        finished, self.finished = self.finished, []
        for token, error in finished:
            if token in self.in_flight:
                self.in_flight.discard(token)
                self._settle_one(*token, error)

    def _settle_one(self, kind, request, error):
        book = self.volume.ledger
        if error and error not in GONE:
            self.volume.on_error(ERRORS_OF[kind], error)
        if kind == "read":
            first, began, buffer = request
            if not error:
                book.check_read(first, bytes(buffer.to_bytearray()), began)
            book.end_read(began)
        elif kind == "flush":
            self.is_flushing = False
            if not error:
                book.flushed(request, self.excused, self.volume.is_durable)
            elif error not in GONE:
                self.excused = book.tick()
        else:
            book.end(request, answered=not error)

    def lose(self):
        """Ends all requests without an answer: the connection is gone."""
        self.settle()
        for token in list(self.in_flight):
            self.finished.append((token, errno.ENOTCONN))
        self.settle()

    def read_all(self, sectors):
        """Returns all bytes of the volume; nothing else is under way."""
        step = 256 << 10
        total = sectors * stamp.SECTOR
        try:
            return b"".join(bytes(self.handle.pread(step, at)) for at in range(0, total, step))
        except nbd.Error as problem:
            raise Violation(f"the volume cannot be read: {problem}") from problem


def shown(request):
    """Returns the sectors of a request, as text."""
    if isinstance(request, int):
        return f"since {request}"
    if isinstance(request, tuple):
        first, began, buffer = request
        return f"of {len(buffer) // stamp.SECTOR} sectors from {first}"
    fua = " FUA" if request.fua else ""
    return f"number {request.number}{fua} of {request.count} sectors from {request.first}"


class Clients:
    """All connections of one daemon, and the loop that serves them."""

    def __init__(self, volume, count, choice):
        self.volume = volume
        self.connections = []
        for _ in range(count):
            volume.connections += 1
            self.connections.append(Connection(volume, volume.connections, choice))

    def drive(self, seconds, control=None):
        """Sends and receives for a while. Ends early, with true, if `control` is readable."""
        end = self.volume.now() + seconds
        while (left := end - self.volume.now()) > 0:
            if not self._turn(left, control, fills=True):
                continue
            return True
        return False

    def drain(self, seconds):
        """Sends nothing more, and receives all answers. Returns whether they have come in time."""
        end = self.volume.now() + seconds
        while any(connection.in_flight for connection in self.connections):
            if self.volume.now() > end or not any(c.is_alive() for c in self.connections):
                return False
            self._turn(0.1, None, fills=False)
        return True

    def unanswered(self):
        """Returns the requests without an answer, as text."""
        return "; ".join(connection.unanswered() for connection in self.connections)

    def _turn(self, left, control, fills):
        poll, by_descriptor = select.poll(), {}
        for connection in self.connections:
            if fills:
                connection.fill()
            if connection.is_alive():
                descriptor = connection.handle.aio_get_fd()
                by_descriptor[descriptor] = connection
                poll.register(descriptor, self._events(connection))
        if control is not None:
            poll.register(control, select.POLLIN)
        for descriptor, events in poll.poll(min(left, 0.1) * 1000):
            if descriptor == control:
                return True
            self._notify(by_descriptor[descriptor], events)
        for connection in self.connections:
            connection.settle()
        return False

    def _events(self, connection):
        direction = connection.handle.aio_get_direction()
        events = select.POLLIN if direction & nbd.AIO_DIRECTION_READ else 0
        return events | (select.POLLOUT if direction & nbd.AIO_DIRECTION_WRITE else 0)

    def _notify(self, connection, events):
        try:
            direction = connection.handle.aio_get_direction()
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR) and direction & 1:
                connection.handle.aio_notify_read()
            elif events & select.POLLOUT and direction & 2:
                connection.handle.aio_notify_write()
        except nbd.Error:
            pass

    def lose(self):
        """Ends all connections, and all requests without an answer."""
        # Answers that had come before the end count.
        while any(c.is_alive() and c.in_flight for c in self.connections):
            if not self._receive_rest():
                break
        for connection in self.connections:
            connection.lose()
            connection.handle = None

    def _receive_rest(self):
        moved = False
        for connection in self.connections:
            if connection.is_alive():
                poll = select.poll()
                poll.register(connection.handle.aio_get_fd(), select.POLLIN)
                for _, events in poll.poll(0):
                    self._notify(connection, events)
                    moved = True
        return moved


def connect(volume, seconds):
    """Connects to the daemon; tries again for a while, as it may be about to start."""
    end = volume.now() + seconds
    while True:
        handle = nbd.NBD()
        handle.set_export_name(volume.program.name)
        try:
            handle.connect_unix(volume.program.socket)
            return handle
        except nbd.Error as problem:
            if volume.now() > end:
                raise Violation(f"no connection: {problem}") from problem
            time.sleep(0.005)


def takes_connections(volume, seconds):
    """Waits until the daemon takes connections. Returns whether it does."""
    try:
        connect(volume, seconds)
    except Violation:
        return False
    return True
