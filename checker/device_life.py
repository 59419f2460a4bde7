"""The life of an attached device: its daemon is killed and replaced while threads use it."""

import os
import time

from device_clients import Clients
from ledger import Violation
from volume import MANY_ERRORS, PATIENCE_SECONDS

EVENTS = ["kill", "supervisor", "upgrade", "flush", "lost"]
WEIGHTS = [10, 3, 1, 1, 1]


class DeviceLife:
    """One device, from `overdrive attach` to `detach`, or to a power cut."""

    def __init__(self, volume):
        self.volume = volume
        self.random = volume.random
        self.program = volume.program
        self.ledger = volume.ledger
        self.totals = volume.totals

    def run(self):
        """Attaches the volume, kills and upgrades its daemon under load, and takes it away."""
        volume = self.volume
        volume.choose_options()
        volume.errors = 0
        volume.is_fresh = False
        self._attach()
        volume.device = os.path.realpath(f"/dev/overdrive/{self.program.name}")
        loads = [volume.choose_load() for _ in range(3)]
        volume.clients = Clients(volume, volume.device, loads)
        for _ in range(self.random.randrange(1, 5)):
            self._event()
            if volume.clients.problem or volume.is_lost:
                break
        if self.random.random() < 0.75 or volume.clients.problem or volume.is_lost:
            volume.power_cut()
        else:
            self._detach()

    def _attach(self):
        self.ledger.note(f"attach {' '.join(self.program.options)}")
        name = ["--name", self.program.name, "--via", "fuse"]
        arguments = [self.volume.disk.backing, *name, *self.program.options]
        while (status := self.program.run("attach", *arguments)) in (3, 6):
            if not self.volume.is_unreachable():
                break
            time.sleep(0.1)
        if status:
            raise Violation(f"attach ended with status {status}")
        self.totals.add("attached")

    def _event(self):
        time.sleep(self.random.random() * self.volume.options.load_seconds)
        if self.volume.is_export and self.random.random() < 0.3:
            self.volume.disturb_link()
        self.volume.mend()
        event = self.random.choices(EVENTS, WEIGHTS)[0]
        if event == "upgrade":
            self._command("upgrade", self.program.name)
            self.totals.add("upgrades")
            self.totals.add("upgrades of devices")
        elif event == "flush":
            self.volume.operator_flush()
        elif event == "lost":
            self._kill_with_holders()
        else:
            self._kill(event == "supervisor")

    def _kill(self, supervisor_too):
        trapped = None
        if self.random.random() < 0.6:
            trapped = self.volume.trap(["write", "flush"], 0.5)
        supervisors, daemons = self.program.supervisors_and_daemons()
        killed = supervisors + daemons if supervisor_too else daemons
        self.program.kill(killed)
        self.totals.add("kills", len(daemons))
        self.totals.add("kills of devices' daemons", len(daemons))
        self.totals.add("kills of supervisors", len(killed) - len(daemons))
        with self.volume.clients.lock:
            self.volume.note_kill(self.volume.after_kill(trapped))
        if supervisor_too:
            time.sleep(self.random.random() * 0.05)
            self._attach()

    def _kill_with_holders(self):
        """Kills daemon and memory. The device may answer with errors, and never with older data."""
        _, daemons = self.program.supervisors_and_daemons()
        with self.volume.clients.lock:
            self.volume.is_lost = True
        self.program.kill(daemons + self.program.holders())
        self.ledger.note("kill with holders")
        self.totals.add("kills with holders")
        time.sleep(0.3)

    def _detach(self):
        if not self.volume.clients.stop(PATIENCE_SECONDS):
            raise self.volume.unanswered("a request to the device hangs")
        self._command("detach", self.program.name)
        self.volume.clients = None
        self.volume.device = None
        self.totals.add("detached")
        if devices := self.program.loop_devices():
            raise Violation(f"detach has left {devices}")
        self.volume.all_written()

    def _command(self, *arguments):
        """Runs a command, which may meet a daemon that was just killed, or a flush in doubt."""
        end = self.volume.now() + PATIENCE_SECONDS
        while (status := self.program.run(*arguments)) and self.volume.now() < end:
            if status == 6 and (self.volume.doubt >= 0 or self.volume.disk_has_failed):
                # The first time reports the doubt; a volume with an order has failed.
                self.volume.failure = self.ledger.tick()
                self.volume.errors = MANY_ERRORS
                self.volume.mend()
            elif status != 3:
                break
            time.sleep(0.05)
        if status:
            raise Violation(f"{' '.join(arguments)} ended with status {status}")
