"""Which requests clients send: where, how large, of which kind."""

KINDS = ["write", "fua", "read", "flush", "zero", "trim"]


class Choice:
    """The requests of one life: a few busy places, so that clients meet, and the rest."""

    def __init__(self, random, sectors):
        self.random = random
        self.sectors = sectors
        self.busy = random.randrange(0, sectors - 1024)
        flushes = random.choice([1, 4, 12])
        self.weights = [50, random.choice([0, 4, 15]), 18, flushes, 7, 6]

    def request(self):
        """Returns kind, first sector and number of sectors."""
        kind = self.random.choices(KINDS, self.weights)[0]
        count = self._count()
        if self.random.random() < 0.6:
            first = self.busy + self.random.randrange(1024)
        else:
            first = self.random.randrange(self.sectors)
        if self.random.random() < 0.6:
            first, count = first // 8 * 8, -(-count // 8) * 8
        first = min(first, self.sectors - count)
        return kind, first, count

    def _count(self):
        luck = self.random.random()
        if luck < 0.45:
            return self.random.randrange(1, 9)
        if luck < 0.9:
            return self.random.randrange(8, 65)
        return self.random.randrange(64, 513)
