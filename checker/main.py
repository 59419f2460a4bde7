"""Kills the real program, cuts its power and upgrades it, and checks that nothing is lost.

Prints a line of totals, and for each violation its seed, the sector, the changes that it may show
and the one that it shows. Exit status: 0 nothing lost, 1 a violation, 2 usage,
3 the checker itself has failed, 4 a tool is missing.
"""

import argparse
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import sys
import time
import traceback

from ledger import Violation
from volume import Totals, Volume

FIRST_LINE_SECONDS = 2
LINE_SECONDS = 10

# Events whose number may end a run.
ENOUGH = ("kills", "cuts", "upgrades", "links cut", "restarts")

LIARS = [
    "none",
    "no-flush",
    "late-flush",
    "forget",
    "misplace",
    "tear",
    "proxy-flush",
    "proxy-write",
    "no-holder",
    "scratch",
    "weaker",
]


def parse():
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(prog="cargo xtask check", description=__doc__)
    option = parser.add_argument
    option("--program", required=True, metavar="FILE", help="overdrive's executable")
    option("--seconds", type=float, default=60, help="how long at most (60)")
    for name in ENOUGH:
        option(f"--{name.replace(' ', '-')}", type=int, default=None, help=f"end after this number of {name}")
    option("--seed", type=int, default=None, help="fixes the choices; the machine's are its own")
    option("--lives", type=int, default=12, help="lives of a volume before a new one (12)")
    option("--write", action="append", help="only this write mode; may be given several times")
    option("--durability", action="append", help="only this durability; likewise")
    option("--device", action="store_true", help="only attached devices, wherever possible")
    option("--nbd", action="store_true", help="only clients over NBD")
    option("--export", action="store_true", help="only disks that are exports over NBD")
    option("--tls", action="store_true", help="with --export: over TLS")
    option("--liar", choices=LIARS, default="none", help="break the set-up: it must be found")
    option("--keep-going", action="store_true", help="go on after a violation")
    option("--if-possible", action="store_true", help="status 0 where a tool is missing")
    option("--json", action="store_true", help="print one object, and no progress")
    options = parser.parse_args()
    lies = options.liar != "none"
    options.devices = 0.0 if options.nbd or lies or not can_attach() else 0.2
    if options.device:
        options.devices = 1.0
    options.exports = 1.0 if options.export else 0.0
    # Of the events over NBD. A liar must be found by what is lost, not by an error.
    options.weights = [60, 60, 0, 0, 0, 0] if lies else [40, 80, 4, 5, 5, 5]
    # Of the events of an export's link and server, which come before one of those.
    options.link_weights = {"unlink": 0.5, "restart": 0.3}
    options.load_seconds = 0.25
    options.disk_failures = 0.04
    return options


def main():
    """Runs volumes until the time is over, enough was done, or a promise was not kept."""
    options = parse()
    if missing := missing_tool(options):
        if options.if_possible:
            print(f"skipped: the independent checker: {missing}")
            return 0
        print(f"checker: {missing}", file=sys.stderr)
        return 4
    # A kill ends as Ctrl-C does: with all processes and mounts taken away.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 31)
    progress, violations = Progress(options), []
    try:
        while not progress.is_over() and (options.keep_going or not violations):
            one_volume(options, progress, violations)
    except KeyboardInterrupt:
        print("checker: interrupted", file=sys.stderr)
    progress.totals["violations"] = len(violations)
    if options.json:
        seconds = round(progress.seconds(), 1)
        report = {"seed": options.seed, "seconds": seconds, "totals": progress.totals}
        print(json.dumps({**report, "violations": violations}))
    else:
        for violation in violations:
            print(f"violation, seed {violation['seed']}: {violation['text']}")
            for entry in violation["log"]:
                print(f"    {entry}")
        print(progress.line())
    return 1 if violations else 0


def missing_tool(options):
    """Returns a message about something that this machine lacks, or nothing."""
    if options.tls and shutil.which("openssl") is None:
        return "there is no openssl; install openssl"
    if importlib.util.find_spec("nbd") is None:
        return "Python has no module nbd; install python3-libnbd"
    if shutil.which("fusermount3") is None:
        return "there is no fusermount3; install fuse3"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be opened"
    return None


def can_attach():
    """Returns whether volumes can be attached, and requests outlive a daemon (Linux 6.9)."""
    release = [int(number) for number in re.findall(r"\d+", os.uname().release)[:2]]
    return os.geteuid() == 0 and os.path.exists("/dev/loop-control") and release >= [6, 9]


class Progress:
    """The totals so far, and the time."""

    def __init__(self, options):
        self.options = options
        self.totals = Totals()
        self.began = time.monotonic()
        self.next_line = FIRST_LINE_SECONDS

    def seconds(self):
        """Returns the time since the start."""
        return time.monotonic() - self.began

    def is_over(self):
        """Returns whether the time is over, or as much was done as was asked for."""
        asked = [(name, getattr(self.options, name.replace(" ", "_"))) for name in ENOUGH]
        asked = [(name, count) for name, count in asked if count is not None]
        enough = asked and all(self.totals.get(name, 0) >= count for name, count in asked)
        return self.seconds() >= self.options.seconds or enough

    def show(self):
        """Prints a line on stderr after two seconds, and then every ten."""
        if self.seconds() >= self.next_line and not self.options.json:
            self.next_line = self.seconds() + LINE_SECONDS
            print(self.line(), file=sys.stderr, flush=True)

    def line(self):
        """Returns the line of totals."""
        counts = ", ".join(f"{count} {name}" for name, count in self.totals.items() if count)
        violations = f"{self.totals.get('violations', 0)} violations"
        counts = counts if self.totals.get("violations") else f"{counts}, {violations}"
        return f"seed {self.options.seed}, {self.seconds():.0f} s: {counts}"


def one_volume(options, progress, violations):
    """Runs the lives of one volume."""
    # The clients need libnbd, whose absence has been reported by now.
    from device_life import DeviceLife
    from nbd_life import NbdLife

    totals = progress.totals
    seed = options.seed + totals.get("volumes", 0)
    totals.add("volumes")
    volume = Volume(options, seed, totals)
    try:
        for _ in range(options.lives):
            if progress.is_over():
                break
            # A volume becomes a device where nothing is left of the life before.
            is_device = volume.is_fresh and volume.random.random() < options.devices
            (DeviceLife if is_device else NbdLife)(volume).run()
            progress.show()
    except Violation as violation:
        log = volume.program.log_tail()
        violations.append({"seed": seed, "text": str(violation), "log": log})
    finally:
        totals.add("sectors judged", volume.ledger.checked)
        volume.close()


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        # Not status 1, which says that the program has broken a promise.
        traceback.print_exc()
        status = 3
    sys.exit(status)
