"""Progress of a sweep on stderr: one line with the time left on a terminal, few lines in a file."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import TextIO

#: With the value ``json``, progress is lines of JSON, as of the command's other long work.
VARIABLE = "OVERDRIVE_PROGRESS"
_TERMINAL_SECONDS = 0.2
_TICK_SECONDS = 1.0
_FILE_SECONDS = 30.0


class Progress:
    """Shows how much of a stage is done. The share is by weight, such as the bytes of traces."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out if out is not None else sys.stderr
        self.is_terminal = self.out.isatty()
        self.is_json = os.environ.get(VARIABLE) == "json"
        self.stage = ""
        self.total = self.done = self.count = self.of = 0
        self.begin = self.stepped = self.shown = 0.0
        self.percent = -1
        self.width = 0
        self.lock = threading.RLock()
        self.ended = threading.Event()
        self.ticker: threading.Thread | None = None

    def start(self, stage: str, total: int = 0, of: int = 0) -> None:
        """Begins a stage with this weight and number of steps. Without steps, it is a wait."""
        with self.lock:
            self.stage, self.total, self.of = stage, max(total, 1), of
            self.done = self.count = 0
            self.percent = -1
            self.begin = self.stepped = self.shown = time.monotonic()
        if self.ticker is None:
            self.ended.clear()
            # Jobs may be long: the line also changes between their ends.
            self.ticker = threading.Thread(target=self._tick, daemon=True)
            self.ticker.start()

    def step(self, stage: str, weight: int) -> None:
        """Counts a finished step."""
        assert stage == self.stage
        with self.lock:
            self.done += weight
            self.count += 1
            self.stepped = time.monotonic()
            if self.is_json:
                self._json()
            self._show_sometimes(_TERMINAL_SECONDS)

    @property
    def share(self) -> float:
        """The share that is done."""
        return min(self.done / self.total, 1.0)

    def seconds_left(self, now: float) -> float | None:
        """Returns the time left if the rest goes as fast as the beginning. None: too early."""
        if not self.done:
            return None
        rest = (self.stepped - self.begin) * (self.total - self.done) / self.done
        return max(rest - (now - self.stepped), 0.0)

    def message(self, text: str) -> None:
        """Prints a line of its own."""
        with self.lock:
            self.clear()
            print(text, file=self.out, flush=True)

    def clear(self) -> None:
        """Removes the line from a terminal."""
        with self.lock:
            if self.width:
                print("\r" + " " * self.width + "\r", end="", file=self.out, flush=True)
                self.width = 0

    def end(self) -> None:
        """Ends the display."""
        self.ended.set()
        if self.ticker is not None:
            self.ticker.join()
            self.ticker = None
        self.clear()

    def _tick(self) -> None:
        while not self.ended.wait(_TICK_SECONDS):
            with self.lock:
                self._show_sometimes(_TICK_SECONDS)

    def _show_sometimes(self, pause: float) -> None:
        """Shows the state if the last time was long enough before."""
        if self.is_json:
            return
        now = time.monotonic()
        if now - self.shown >= (pause if self.is_terminal else _FILE_SECONDS):
            self.shown = now
            self._show(now)

    def _json(self) -> None:
        percent = int(self.share * 100)
        if percent != self.percent:
            self.percent = percent
            line = {"stage": self.stage, "share": self.share}
            print(json.dumps(line), file=self.out, flush=True)

    def _show(self, now: float) -> None:
        left = self.seconds_left(now)
        rest = f", {duration(left)} left" if left is not None else ""
        text = f"{self.stage}: {self.count} of {self.of}, {self.share:.0%}{rest}"
        if not self.of:
            text = f"{self.stage}, {duration(now - self.begin)}"
        if not self.is_terminal:
            print(text, file=self.out, flush=True)
            return
        text = text[: max(_columns(self.out) - 1, 20)]
        print("\r" + text.ljust(self.width), end="", file=self.out, flush=True)
        self.width = len(text)


def _columns(out: TextIO) -> int:
    try:
        return os.get_terminal_size(out.fileno()).columns
    except (OSError, ValueError):
        return 80


def duration(seconds: float) -> str:
    """Returns a time in words: ``45 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
