"""A volume on a lossy disk, its clients, and the events that are common to all of its lives."""

import contextlib
import errno
import random
import select
import tempfile
import time

import load
import program
from export_disk import RemoteExport
from file_disk import RemoteFile
from ledger import Ledger, Violation

SECTORS = 32768
# Several times as long as changes of an export may be held after a cut of its link.
PATIENCE_SECONDS = 150
# As many errors show that a volume has failed.
MANY_ERRORS = 4


class Totals(dict):
    """Counts of events, by name."""

    def add(self, key, count=1):
        """Counts more of a kind."""
        self[key] = self.get(key, 0) + count


class Volume:
    """The disk, the program that serves it, and its clients."""

    def __init__(self, options, seed, totals):
        self.options = options
        self.lie = options.liar
        self.random = random.Random(seed)
        self.totals = totals
        self.directory = tempfile.TemporaryDirectory(prefix="checker-")
        self.ledger = Ledger(seed, SECTORS)
        # Whether the disk is an export, whose link and server have lives of their own.
        self.is_export = self.random.random() < options.exports
        self.reachable_at = 0
        place = (self.directory.name, SECTORS * 512, seed, self.lie)
        self.disk = RemoteExport(options.tls, *place) if self.is_export else RemoteFile(*place)
        self.program = program.Program(options.program, self.directory.name, self.disk.backing)
        self.connections = 0
        self.clients = None
        # The path of the block device, while the volume is one.
        self.device = None
        # True after daemon and holder of a device were killed: it may answer with errors only.
        self.is_lost = False
        # Whether a flush makes all that it covers durable, or only keeps an order.
        self.is_durable = True
        self.durability = None
        self.former_options = None
        self.errors = 0
        self.forgive()

    def forgive(self):
        """Begins anew, with nothing left of an earlier life."""
        self.is_fresh = True
        # Whether an order was promised, which the next daemon keeps, whatever it promises itself.
        self.has_order = False
        # Changes before this moment may be lost, if the first flush of each client fails.
        self.doubt = -1
        # When an operator has accepted that changes without a flush may be missing.
        self.cleared = -1
        # When a flush was last answered with an error.
        self.failure = -1
        # Whether errors have their cause in a flush of the disk that has failed.
        self.disk_has_failed = False

    def now(self):
        """Returns the time in seconds."""
        return time.monotonic()

    def close(self):
        """Ends everything that was started here. Clients may still find the violation again."""
        try:
            with contextlib.suppress(Violation):
                self._power_off()
        finally:
            self.disk.close()
            self._remove_directory()

    def _remove_directory(self):
        """Removes all files. A mount whose daemon has just died may still be among them."""
        for _ in range(20):
            with contextlib.suppress(OSError):
                self.directory.cleanup()
                return
            self.program.forget_device()
            time.sleep(0.1)
        self.directory.cleanup()

    # Settings.

    def choose_options(self):
        """Chooses the options of the next daemon."""
        choice = self.random
        modes = self.options.write or ["back", "back", "back-now", "through", "none"]
        if self.durability is None or choice.random() < 0.1:
            durabilities = self.options.durability or ["flush", "flush", "ordered"]
            # What is written through in ordered mode is lost by a restart of the server.
            durabilities = ["flush"] if self.is_export else durabilities
            self.durability = "flush" if self.lie == "weaker" else choice.choice(durabilities)
        self.set_durability(self.durability)
        served = {"scratch": "scratch", "weaker": "ordered"}.get(self.lie, self.durability)
        options = ["--memory", choice.choice(["4M", "8M", "32M"])]
        options += ["--write", choice.choice(modes), "--durability", served, "--retry-time", "3s"]
        if choice.random() < 0.4:
            options += ["--dirty-bytes", choice.choice(["128K", "1M"])]
        if choice.random() < 0.3:
            options += ["--threads", choice.choice(["1", "2"])]
        if self.lie == "no-holder":
            options.append("--no-holder")
        self.former_options, self.program.options = self.program.options, options

    def set_durability(self, durability):
        """Notes the meaning of flushes from now on."""
        self.durability = durability
        self.is_durable = durability == "flush"
        self.ledger.is_ordered = not self.is_durable
        self.has_order |= not self.is_durable

    def choose_load(self):
        """Returns which requests a client sends."""
        return load.Choice(random.Random(self.random.random()), SECTORS)

    # Errors.

    def on_error(self, kind, error):
        """Judges an error that a client was answered with."""
        self.totals.add(f"errors of {kind}")
        self.errors += kind != "reads"
        if kind == "flushes":
            self.failure = self.ledger.tick()
            self.ledger.note("a flush failed")
        if self.disk_has_failed or self.is_lost:
            return
        # In doubt the first flush of a client fails; a volume with an order has failed.
        if self.doubt >= 0 and (kind == "flushes" or self.has_order and kind == "changes"):
            return
        name = errno.errorcode.get(error, error)
        raise Violation(f"one of the {kind} was answered with {name}, without a cause")

    def mend(self):
        """Clears the error of a volume that has failed."""
        if self.errors < MANY_ERRORS:
            return
        self.errors = 0
        self.totals.add("errors cleared")
        self.disk.command("fail", count=0)
        end = self.now() + PATIENCE_SECONDS
        while self.program.run("volume", "clear-error", self.program.name, "--retry") == 3:
            # The supervisor is about to start the next daemon.
            if self.now() > end:
                raise Violation("no daemon comes back")
            time.sleep(0.05)
        with self.lock_of_clients():
            self.ledger.forget_order()
            self.doubt = self.cleared = self.ledger.tick()
            self.ledger.note("error cleared")
            for client in getattr(self.clients, "connections", [self.clients]):
                client.excused = self.doubt

    def unanswered(self, what):
        """Returns the violation of requests without an answer, which shows where they wait."""
        self.program.run("volume", "stats", self.program.name, "--json")
        disk, requests = self.disk.command("counts"), self.clients.unanswered()
        return Violation(f"{what}: {requests}; the disk: {disk}")

    def excused(self):
        """Returns the moment since which changes are promised by a command that writes all out."""
        return max(self.doubt, self.failure, self.cleared)

    def lock_of_clients(self):
        """Returns the lock that threads of clients take, where there are any."""
        return self.clients.lock if self.device else contextlib.nullcontext()

    # The link of an export.

    def disturb_link(self):
        """Cuts the link to an export, or ends its server, or does nothing."""
        luck, cuts = self.random.random(), self.options.link_weights["unlink"]
        seconds = self.random.choice([0, 0.1, 1]) * self.random.random()
        self.reachable_at = self.now() + seconds
        if luck < cuts:
            is_silent = self.random.random() < 0.3
            self.ledger.note(f"the link is cut{', silently' if is_silent else ''}")
            self.disk.command("unlink", seconds=seconds, silent=is_silent)
            self.totals.add("links cut")
        elif luck < cuts + self.options.link_weights["restart"]:
            self.ledger.note("the server is restarted")
            self.disk.command("restart", seconds=seconds)
            self.totals.add("restarts")
        # Until a flush has succeeded since the start, the volume may fail.
        self.disk_has_failed = True

    def is_unreachable(self):
        """Returns whether the link may be cut now."""
        return self.is_export and self.now() < self.reachable_at + 1

    # Kills.

    def trap(self, kinds, seconds):
        """Waits until the disk holds one of its next requests. Returns the kind of that request."""
        kind = self.random.choice(kinds)
        self.disk.command("trap", kind=kind, count=self.random.randrange(1, 12))
        control = self.disk.control.fileno()
        if self.device:
            is_caught = bool(select.select([control], [], [], seconds)[0])
        else:
            is_caught = self.clients.drive(seconds, control)
        return self.disk.wait_for_trap()["kind"] if is_caught else None

    def after_kill(self, trapped):
        """Lets the trapped request go on, or a flush fail, now that its daemon was killed."""
        # A flush may have ended unnoticed just now, or wait in the kernel behind a write.
        is_lost = self.disk.command("counts")["quiet"] < 0.2
        # Over TLS the next daemon cannot flush on the connection of this one.
        is_lost = is_lost or self.is_export and self.options.tls
        fails = trapped == "flush" and self.random.random() < 0.6
        self.ledger.note(f"kill {trapped}{', the flush fails' if fails else ''}")
        if trapped:
            self.totals.add("flushes failed late", int(fails))
            self.disk.command("release", fails=fails, delay=self.random.random() * 0.1)
        else:
            self.disk.command("untrap")
        return is_lost

    def note_kill(self, flush_lost):
        """Notes a kill, which leaves a doubt where the result of a flush is lost."""
        self.ledger.killed(flush_lost)
        if flush_lost or self.doubt >= 0:
            self.doubt = self.ledger.tick()

    # Flushes and stops.

    def operator_flush(self):
        """Flushes by `overdrive volume flush`."""
        sent = self.ledger.tick()
        if self.program.run("volume", "flush", self.program.name) == 0:
            with self.lock_of_clients():
                self.ledger.flushed(sent, self.excused(), True)
            self.totals.add("operator's flushes")

    def all_written(self):
        """Notes a stop that has written everything out. A doubt outlives it, and is reported again."""
        self.ledger.flushed(self.ledger.tick(), self.excused(), True)
        excused, doubt = self.excused(), self.doubt
        self.ledger.forget_order()
        self.forgive()
        self.cleared, self.doubt = excused, doubt

    # Power cuts.

    def power_cut(self):
        """Cuts the power, and judges all bytes of the disk."""
        trapped = None
        if self.clients and self.random.random() < 0.5:
            trapped = self.trap(["write", "flush"], 0.5)
        self._power_off()
        self.totals.add("cuts")
        self.totals.add("cuts at a request", int(trapped is not None))
        self.ledger.check_whole(self.disk.image, after_cut=True)
        self.durability = None
        self.forgive()

    def _power_off(self):
        if self.device and self.clients:
            self.clients.power_is_off = True
        self.program.kill_all()
        self.disk.command("cut")
        self.program.wait_for_end()
        self._lose_clients()
        self.program.forget_device()
        self.disk.command("power")
        self.program.forget_runtime()

    def _lose_clients(self):
        clients, self.clients = self.clients, None
        device, self.device = self.device, None
        self.is_lost = False
        if device and clients and not clients.stop(PATIENCE_SECONDS):
            raise self.unanswered("a request to the device hangs")
        if clients and not device:
            clients.lose()


