"""The life of a daemon with clients over NBD: start, load, and an event that ends or changes it."""

import subprocess
import time

from ledger import Violation
from nbd_clients import Clients, takes_connections
from volume import PATIENCE_SECONDS, SECTORS

EVENTS = ["kill", "cut", "upgrade", "stop", "flush", "set"]


class NbdLife:
    """One start of `overdrive serve`."""

    def __init__(self, volume):
        self.volume = volume
        self.random = volume.random
        self.program = volume.program
        self.ledger = volume.ledger
        self.totals = volume.totals

    def run(self):
        """Serves the volume until one of the events ends that."""
        volume = self.volume
        volume.choose_options()
        volume.errors = 0
        volume.is_fresh = False
        event = self._choose_event()
        volume.disk.command("slow", factor=self.random.choice([0, 1, 1, 3]))
        self.ledger.note(f"serve {' '.join(self.program.options)}")
        self.program.serve()
        if event == "kill" and self.random.random() < 0.1:
            time.sleep(self.random.random() * 0.15)
            self._kill(None)
            return
        self._wait_for_daemon()
        self._connect()
        if self.random.random() < 0.3:
            self._read_all()
        if self.random.random() < volume.options.disk_failures:
            volume.disk_has_failed = True
            volume.disk.command("fail", count=self.random.randrange(1, 3))
        self._go_on(event)
        volume.disk.command("fail", count=0)

    def _choose_event(self):
        return self.random.choices(EVENTS, self.volume.options.weights)[0]

    def _go_on(self, event):
        for _ in range(self.random.choice([1, 1, 2])):
            if self.volume.is_export:
                self.volume.disturb_link()
            self.volume.clients.drive(self.random.random() * self.volume.options.load_seconds)
            self.volume.mend()
        if event == "upgrade":
            self._upgrade()
            self._go_on(self._choose_event())
        elif event == "cut":
            self.volume.power_cut()
        elif event == "stop":
            self._stop()
        else:
            if event == "flush":
                self.volume.operator_flush()
            elif event == "set":
                self._set()
            self._kill_at_a_request()

    def _wait_for_daemon(self):
        end = self.volume.now() + PATIENCE_SECONDS
        while self.volume.now() < end:
            if takes_connections(self.volume, 0.05):
                return
            status = self.program.daemon.poll()
            if status is not None:
                self._serve_again(status)
        raise Violation("serve does not take connections")

    def _serve_again(self, status):
        if status == 5:
            # The daemon that was killed has not died yet.
            time.sleep(0.02)
        elif status in (3, 6) and self.volume.is_unreachable():
            time.sleep(0.1)
        elif status == 6 and self.volume.doubt >= 0 and self.volume.former_options:
            # Dirty data in doubt cannot be written out first: serve it with the memory that it had.
            self.totals.add("starts with the former memory")
            self.program.options[1] = self.volume.former_options[1]
        else:
            raise Violation(f"serve ended with status {status}")
        self.program.serve()

    def _connect(self):
        count = self.random.randrange(1, 5)
        self.volume.clients = Clients(self.volume, count, self.volume.choose_load())
        self.ledger.note("connected")

    def _lose_clients(self):
        self.volume.clients.lose()
        self.volume.clients = None

    def _read_all(self):
        self.ledger.note("read all")
        data = self.volume.clients.connections[0].read_all(SECTORS)
        self.ledger.check_whole(memoryview(data), after_cut=False)
        self.totals.add("volumes read")

    def _kill_at_a_request(self):
        trapped = None
        if self.random.random() < 0.6:
            trapped = self.volume.trap(["write", "write", "flush"], 0.7)
        else:
            self.volume.clients.drive(self.random.random() * 0.2)
        self._kill(trapped)

    def _kill(self, trapped):
        self.program.kill_daemon()
        self.totals.add("kills")
        flush_lost = self.volume.after_kill(trapped)
        if self.volume.clients:
            self._lose_clients()
        self.volume.note_kill(flush_lost)
        # Sometimes the next daemon is started before this one has died.
        if self.random.random() < 0.7:
            self.program.daemon.wait(PATIENCE_SECONDS)

    def _command_under_load(self, *arguments):
        command = self.program.start(*arguments)
        end = self.volume.now() + PATIENCE_SECONDS
        while command.poll() is None and self.volume.now() < end:
            self.volume.clients.drive(0.02)
        return command.poll()

    def _upgrade(self):
        status = self._command_under_load("upgrade", self.program.name)
        if status != 0:
            raise Violation(f"upgrade ended with status {status}")
        self.totals.add("upgrades")
        # A setting ends with the program; the next one is served as its arguments say.
        self._lose_clients()
        self._wait_for_daemon()
        self._connect()
        self._read_all()

    def _stop(self):
        if not self.volume.clients.drain(PATIENCE_SECONDS):
            raise self.volume.unanswered("a request is not answered")
        status = self.program.stop(PATIENCE_SECONDS)
        self._lose_clients()
        self.totals.add("stops")
        if status == 0:
            self.volume.all_written()
        elif not self.volume.disk_has_failed and self.volume.doubt < 0:
            raise Violation(f"a stop ended with status {status}")

    def _set(self):
        """Changes settings: the write mode under load, or the durability between requests."""
        may_fail = self.volume.disk_has_failed or self.volume.doubt >= 0
        if self.random.random() < 0.5 or self.volume.is_export:
            mode = self.random.choice(["back", "back-now", "through", "none"])
            setting = [f"write={mode}", f"dirty_bytes={self.random.choice(['256K', '1M'])}"]
            status = self._command_under_load("volume", "set", self.program.name, *setting)
        else:
            status = self._set_durability()
        self.ledger.note(f"set, status {status}")
        if status and not may_fail:
            raise Violation(f"set ended with status {status}")
        self.totals.add("settings changed")
        self.volume.clients.drive(self.random.random() * 0.2)

    def _set_durability(self):
        if not self.volume.clients.drain(PATIENCE_SECONDS):
            raise self.volume.unanswered("a request is not answered")
        durability = "ordered" if self.volume.is_durable else "flush"
        sent = self.ledger.tick()
        setting = f"durability={durability}"
        status = self.program.run("volume", "set", self.program.name, setting)
        if status == 0:
            self.ledger.flushed(sent, self.volume.excused(), True)
            self.volume.set_durability(durability)
        return status
