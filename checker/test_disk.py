"""The disk without a program: what a trap holds, and for how long."""

import json
import random
import socket
import unittest

from cache import Cache
from disk import FLUSH, Disk, Request


class Asked(Request):
    """A request that keeps its answer."""

    answered = None

    def answer(self, data=b"", error=0):
        """Notes the answer."""
        self.answered = error


class Traps(unittest.TestCase):
    """A trap holds one request until it is released, and ends with that."""

    def setUp(self):
        self.owner, control = socket.socketpair()
        self.addCleanup(self.owner.close)
        self.addCleanup(control.close)
        choice = random.Random(1)
        self.disk = Disk(control, Cache(bytearray(8192), "none", choice), choice)
        self.disk.slowness = 0

    def ask(self, **command):
        """Sends a command; returns the lines that the disk reports."""
        self.disk.do(command)
        self.owner.setblocking(False)
        try:
            return [json.loads(line) for line in self.owner.recv(65536).splitlines()]
        except BlockingIOError:
            return []

    def flush(self):
        """Sends a flush, and lets the disk do what is due."""
        request = Asked(FLUSH)
        self.disk.begin(request)
        self.disk.do_due()
        return request

    def test_a_trapped_request_waits_for_its_release(self):
        self.ask(verb="trap", kind=FLUSH, count=1)
        request = self.flush()
        self.assertIsNone(request.answered)
        reports = self.ask(verb="release", fails=False, delay=0)
        self.assertEqual([report["event"] for report in reports], ["trap", "release"])
        self.disk.do_due()
        self.assertEqual(request.answered, 0)

    def test_a_trap_ends_with_its_release_though_it_has_caught_nothing(self):
        for verb in ("release", "untrap"):
            self.ask(verb="trap", kind=FLUSH, count=1)
            self.ask(verb=verb, fails=False, delay=0)
            self.assertEqual(self.flush().answered, 0)

    def test_a_flush_that_fails_is_the_trapped_one(self):
        self.ask(verb="trap", kind=FLUSH, count=1)
        trapped = self.flush()
        self.ask(verb="release", fails=True, delay=0.01)
        self.assertEqual(self.flush().answered, 0)
        while trapped.answered is None:
            self.disk.do_due()
        self.assertNotEqual(trapped.answered, 0)


if __name__ == "__main__":
    unittest.main()
