"""The changes that clients have sent, and the contents that sectors may have because of them.

This is the checker's reading of SEMANTICS.md. It uses the facts that a client can observe of a
change: when it was sent, when it was answered, and how. Moments are numbers of one counter.

- C5, C10: a read shows a change that was sent before the read's end, and that was not replaced
  before the read began. A change is replaced by one that surely came later: sent after the end of
  the first, or after it on the same connection of NBD. Once a change is over, a sector that has
  shown it does not go back.
- C1: after a power cut a sector shows its newest durable change, or one that may have come later. A
  change is durable if it was answered before a successful flush was sent, or is an answered FUA
  write.
- C2, `ordered`: all that a flush covers is durable if anything that was sent after its answer is
  found after the power cut.
- C4: of the changes of one unit of 4 KiB, each is there in all of its sectors or in none.
- C8, C1: a flush may fail if a flush of the disk has failed, or was under way at a kill. Changes
  that were sent before are then promised by no later flush of the same client.
"""

import collections
import itertools

import stamp

INFINITY = float("inf")
UNIT_SECTORS = 8


class Change:
    """A write, or zeros, of a range of sectors. An end without an answer is a failure."""

    __slots__ = (
        "answered",
        "connection",
        "count",
        "durable",
        "durable_sectors",
        "end",
        "first",
        "fua",
        "number",
        "seen",
        "sent",
        "trusted",
        "value",
    )

    def __init__(self, number, value, connection, first, count, sent):
        self.number = number
        # The contents of its sectors: the number, or 0 for zeros.
        self.value = value
        self.connection = connection
        self.first = first
        self.count = count
        self.sent = sent
        self.end = INFINITY
        self.answered = False
        self.fua = False
        self.durable = False
        # Without an answer a change may have been done, and have become durable, in a part.
        self.durable_sectors = set()
        # Where and since when a read has shown that it was done, while it has no answer.
        self.seen = {}
        # False if it was under way at a kill during a flush: having been seen, it may still go.
        self.trusted = True

    def is_before(self, other):
        """Returns whether this change surely came before the other one."""
        if self.end < other.sent:
            return True
        same = self.connection is not None and self.connection == other.connection
        return same and self.sent < other.sent

    def done(self, sector):
        """Returns the moment from which on the change has surely been done to a sector."""
        return self.end if self.answered else max(self.end, self.seen.get(sector, INFINITY))

    def is_durable(self, sector):
        """Returns whether a power cut leaves this change in a sector, or a later one."""
        return self.durable or sector in self.durable_sectors

    def set_durable(self, sector):
        """Notes that a flush has covered this change in a sector."""
        if self.answered:
            self.durable = True
        else:
            self.durable_sectors.add(sector)

    def __str__(self):
        end = "never" if self.end == INFINITY else self.end
        answer = "answered" if self.answered else "failed"
        kind = "write" if self.value else "zeros"
        name = f"{kind} {self.number} of sectors {self.first}+{self.count}"
        return f"{name}, sent {self.sent}, {answer} {end}{' FUA' if self.fua else ''}"


class Flush:
    """A flush of `ordered` mode that was answered: an epoch's end."""

    __slots__ = ("change", "end", "sent")

    def __init__(self, sent, end, change):
        self.sent = sent
        self.end = end
        # The FUA write that it is, if it is one.
        self.change = change


class Violation(Exception):
    """A promise that was not kept."""


def _may_survive(change, durable):
    return not any(change.is_before(other) for other in durable)


class Ledger:
    """All that clients have sent since the last power cut."""

    def __init__(self, run, sectors):
        self.run = run
        self.counter = itertools.count(1)
        self.clock = 0
        self.numbers = 0
        self.base = [0] * sectors
        self.snapshot = bytearray(sectors * stamp.SECTOR)
        # Of each sector that was changed: its changes in the order of their sending.
        self.changes = {}
        # Of each sector: the changes that its last read may have shown, and the read's times.
        self.last_seen = {}
        self.epochs = []
        # Changes before this moment are promised by no epoch.
        self.order_excused = -1
        # When the reads that are not answered yet were sent.
        self.reads = set()
        self.is_ordered = False
        self.checked = 0
        # For messages: the last reads of each sector, and the last events of the run.
        self.reads_of = {}
        self.events = collections.deque(maxlen=12)
        self.flushes = collections.deque(maxlen=8)

    def tick(self):
        """Returns the next moment."""
        # Threads may call this at one time: `next` does not give two of them the same number.
        self.clock = next(self.counter)
        return self.clock

    def note(self, event):
        """Notes an event of the run, for messages."""
        self.events.append(f"{self.tick()} {event}")

    # Requests of clients.

    def send(self, is_write, connection, first, count):
        """Notes a change that is about to be sent."""
        self.numbers += 1
        number = self.numbers
        change = Change(number, number if is_write else 0, connection, first, count, self.tick())
        for sector in range(first, first + count):
            changes = self.changes.get(sector)
            if changes is None:
                changes = self.changes[sector] = [self._base_change(sector)]
            changes.append(change)
        return change

    def _base_change(self, sector):
        base = Change(0, self.base[sector], None, sector, 1, -1)
        base.end = -1
        base.answered = base.durable = True
        return base

    def end(self, change, answered):
        """Notes the answer of a change, or that it failed."""
        change.end = self.tick()
        change.answered = answered
        if not (answered and change.fua):
            return
        if self.is_ordered:
            self.epochs.append(Flush(change.sent, change.end, change))
        else:
            change.durable = True

    def flushed(self, sent, excused, is_durable):
        """Notes a flush that was answered. It promises nothing of changes before `excused`."""
        self.flushes.append((sent, self.clock, excused, "durable" if is_durable else "epoch"))
        if not is_durable:
            self.epochs.append(Flush(sent, self.tick(), None))
            return
        for sector, changes in self.changes.items():
            if len(changes) > 1:
                self._mark_durable(sector, changes, sent, excused)

    def _mark_durable(self, sector, changes, sent, excused):
        """Marks what a flush covers; forgets changes that can show no more."""
        for change in changes:
            if self._is_covered(sector, change, sent) and change.sent > excused:
                change.set_durable(sector)
        oldest = self.oldest_read()
        durable = [c for c in changes if c.is_durable(sector) and c.done(sector) < oldest]
        seen = self.last_seen.get(sector)
        settled = seen and len(seen[0]) == 1 and seen[0][0] in durable
        settled = settled and seen[2] < min(sent, self.oldest_read())
        self.changes[sector] = [
            change
            for change in changes
            if not any(change.is_before(other) for other in durable)
            and not (settled and change is not seen[0][0] and change.end < seen[1])
        ]

    def oldest_read(self):
        """Returns when the oldest read that is under way was sent."""
        return min(self.reads, default=INFINITY)

    def _is_covered(self, sector, change, sent):
        return change.done(sector) < sent and (change.answered or change.trusted)

    def killed(self, flush_lost):
        """Notes a kill. If a flush may be lost, changes without an answer are not trusted."""
        if not flush_lost:
            return
        for changes in self.changes.values():
            for change in changes:
                if not change.answered:
                    change.trusted = False

    def forget_order(self):
        """Notes that an operator has cleared an error: earlier epochs promise nothing any more."""
        self.epochs.clear()
        self.order_excused = self.tick()

    # Contents that are found.

    def begin_read(self):
        """Notes a read that is about to be sent; returns the moment."""
        moment = self.tick()
        self.reads.add(moment)
        return moment

    def end_read(self, began):
        """Notes that a read has ended, in whatever way."""
        self.reads.discard(began)

    def check_read(self, first, data, began):
        """Judges the bytes of a read that was sent at `began` and has just been answered."""
        now = self.tick()
        for index in range(len(data) // stamp.SECTOR):
            sector = first + index
            found = data[index * stamp.SECTOR : (index + 1) * stamp.SECTOR]
            self._check_sector(sector, found, began, now)

    def _check_sector(self, sector, found, began, now):
        self.checked += 1
        changes = self.changes.get(sector)
        if changes is None:
            if found != self.snapshot[sector * stamp.SECTOR : (sector + 1) * stamp.SECTOR]:
                self._fail(sector, found, [self._base_change(sector)], "read")
            return
        value = stamp.read(self.run, sector, found)
        same = [change for change in changes if change.value == value]
        matching = [change for change in same if self._is_visible(sector, change, began, now)]
        if not matching:
            allowed = [other for other in changes if self._is_visible(sector, other, began, now)]
            self._fail(sector, found, allowed, "read")
        if len(matching) == 1 and not matching[0].answered:
            matching[0].seen.setdefault(sector, now)
        seen = self.last_seen.get(sector)
        if seen is None or seen[1] < began:
            self.last_seen[sector] = (matching, began, now)
        self.reads_of.setdefault(sector, collections.deque(maxlen=4)).append((began, now, value))

    def _is_visible(self, sector, change, began, now):
        if change.sent > now:
            return False
        seen = self.last_seen.get(sector)
        # A later read does not show what had been replaced when an earlier one began. (Beside a
        # change that is under way each read may show the old or the new.)
        if seen and seen[2] < began and change.end < seen[1] and change not in seen[0]:
            if all(other.end < began for other in seen[0]):
                return False
        others = self.changes[sector]
        return not any(change.is_before(other) and other.done(sector) < began for other in others)

    def check_whole(self, image, after_cut):
        """Judges all bytes at rest. After a power cut the next life begins with them."""
        if after_cut:
            self._believe_epochs(image)
        untouched = self._untouched(image)
        found = {sector: self._resting(sector, image, after_cut) for sector in self.changes}
        self.checked += untouched + len(found)
        for unit in {sector // UNIT_SECTORS for sector in found}:
            self._check_unit(unit, found)
        if after_cut:
            self._start_anew(image, found)

    def _untouched(self, image):
        count = 0
        for start in range(0, len(self.base), UNIT_SECTORS):
            begin, end = start * stamp.SECTOR, (start + UNIT_SECTORS) * stamp.SECTOR
            if image[begin:end] == self.snapshot[begin:end]:
                continue
            for sector in range(start, start + UNIT_SECTORS):
                if sector not in self.changes:
                    self._check_sector(sector, self._sector(image, sector), self.clock, self.clock)
                    count += 1
        return count

    def _resting(self, sector, image, after_cut):
        found = self._sector(image, sector)
        changes = self.changes[sector]
        value = stamp.read(self.run, sector, found)
        same = [change for change in changes if change.value == value]
        if not after_cut:
            began, now = self.tick(), self.tick()
            shown = [change for change in same if self._is_visible(sector, change, began, now)]
            self._check_sector(sector, found, began, now)
            return shown
        durable = [change for change in changes if change.is_durable(sector)]
        matching = [change for change in same if _may_survive(change, durable)]
        if not matching:
            allowed = [change for change in changes if _may_survive(change, durable)]
            self._fail(sector, found, allowed, "power cut")
        return matching

    def _believe_epochs(self, image):
        """Marks all that is promised by the epochs before the newest change that is found."""
        newest = -1
        for sector, changes in self.changes.items():
            value = stamp.read(self.run, sector, self._sector(image, sector))
            if value:
                sent = [change.sent for change in changes if change.value == value]
                newest = max([newest, *sent])
        believed = [flush for flush in self.epochs if flush.end < newest]
        for flush in believed:
            if flush.change:
                flush.change.durable = True
        sent = max((flush.sent for flush in believed), default=-1)
        if believed:
            self.note(f"the epochs before {sent} are durable, for a change of {newest} is found")
        for changes in self.changes.values():
            for change in changes:
                if change.answered and change.end < sent and change.sent > self.order_excused:
                    change.durable = True

    def _check_unit(self, unit, found):
        sectors = [s for s in range(unit * UNIT_SECTORS, (unit + 1) * UNIT_SECTORS) if s in found]
        for sector in sectors:
            for other in sectors:
                if other != sector:
                    self._check_pair(sector, found[sector], other, found[other])

    def _check_pair(self, sector, shown, other, other_shown):
        """Fails if the other sector shows a change that must be here too, and is not."""
        if len(other_shown) != 1:
            return
        change = other_shown[0]
        if not change.first <= sector < change.first + change.count:
            return
        if all(mine is not change and mine.is_before(change) for mine in shown):
            raise Violation(
                f"sector {sector}: torn unit: sector {other} shows {change}; this one shows "
                + " or ".join(map(str, shown))
            )

    def _start_anew(self, image, found):
        for sector, matching in found.items():
            self.base[sector] = matching[0].value
        self.snapshot[:] = bytes(image)
        self.changes.clear()
        self.last_seen.clear()
        self.reads_of.clear()
        self.epochs.clear()

    def _sector(self, image, sector):
        return bytes(image[sector * stamp.SECTOR : (sector + 1) * stamp.SECTOR])

    def _fail(self, sector, found, allowed, event):
        value = stamp.read(self.run, sector, bytes(found))
        shown = "zeros" if value == 0 else value if isinstance(value, str) else f"write {value}"
        history = "; ".join(str(change) for change in self.changes.get(sector, [])[-8:])
        raise Violation(
            f"sector {sector} after {event}: found {shown}; allowed "
            + (" or ".join(map(str, allowed)) or "nothing")
            + f"; last changes: {history}; last reads (sent, answered, write):"
            f" {list(self.reads_of.get(sector, []))}; events: {', '.join(self.events)};"
            f" flushes (sent, answered, excused): {list(self.flushes)}"
        )
