"""A volatile cache: which versions of its units a disk may show after a power cut."""

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

    def keep(self, offset, size):
        """Makes durable what the units of a range show, as the answer to a FUA write promises."""
        for unit in range(offset // UNIT, -(-(offset + size) // UNIT)):
            self.durable[unit * UNIT : (unit + 1) * UNIT] = self.image[unit * UNIT : (unit + 1) * UNIT]
            self.versions.pop(unit, None)

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
