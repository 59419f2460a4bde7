"""Small histories by hand: which of them keep the promises, and which break them."""

import unittest

import stamp
from ledger import Ledger, Violation

RUN, SECTORS = 7, 16


class History(Ledger):
    """A ledger with a few words for whole requests."""

    def __init__(self):
        super().__init__(RUN, SECTORS)
        self.image = bytearray(SECTORS * stamp.SECTOR)

    def write(self, first=0, count=1, answered=True, fua=False, connection=None):
        """Sends a write and ends it."""
        change = self.send(True, connection, first, count)
        change.fua = fua
        self.end(change, answered)
        return change

    def flush(self, is_durable=True, excused=-1):
        """Sends a flush and answers it."""
        self.flushed(self.tick(), excused, is_durable)

    def show(self, change, sectors=None):
        """Lets the disk hold a change, in some of its sectors."""
        for sector in sectors or range(change.first, change.first + change.count):
            data = stamp.write(RUN, sector, 1, change.number, 0)
            self.image[sector * stamp.SECTOR : (sector + 1) * stamp.SECTOR] = data

    def cut(self):
        """Cuts the power, and judges the disk."""
        self.check_whole(self.image, after_cut=True)

    def read(self, began=None):
        """Reads all of the disk."""
        self.check_read(0, bytes(self.image), self.begin_read() if began is None else began)


class LedgerTest(unittest.TestCase):
    """Each test is a rule, kept and broken."""

    def setUp(self):
        self.history = History()

    def test_an_answered_write_is_read(self):
        change = self.history.write()
        with self.assertRaises(Violation):
            self.history.read()
        self.history.show(change)
        self.history.read()

    def test_a_read_beside_a_write_shows_either(self):
        began = self.history.begin_read()
        change = self.history.write()
        self.history.read(began)
        self.history.show(change)
        self.history.read(began)

    def test_a_write_that_failed_may_be_there_until_one_is_seen(self):
        older = self.history.write()
        newer = self.history.write(answered=False)
        self.history.show(older)
        self.history.read()
        self.history.show(newer)
        with self.assertRaises(Violation):
            self.history.read()

    def test_what_was_seen_after_a_failure_stays(self):
        older = self.history.write()
        newer = self.history.write(answered=False)
        self.history.show(newer)
        self.history.read()
        self.history.show(older)
        with self.assertRaises(Violation):
            self.history.read()

    def test_a_power_cut_may_take_what_was_not_flushed(self):
        self.history.write()
        self.history.cut()

    def test_a_flush_makes_durable_what_was_answered(self):
        self.history.write()
        self.history.flush()
        with self.assertRaises(Violation):
            self.history.cut()

    def test_a_flush_covers_nothing_that_was_under_way(self):
        change = self.history.send(True, None, 0, 1)
        self.history.flush()
        self.history.end(change, True)
        self.history.cut()

    def test_a_durable_write_hides_what_came_before(self):
        older = self.history.write()
        self.history.write(fua=True)
        self.history.show(older)
        with self.assertRaises(Violation):
            self.history.cut()

    def test_what_a_client_was_warned_of_may_be_lost(self):
        change = self.history.write()
        self.history.flush(excused=change.end)
        self.history.cut()

    def test_one_connection_has_an_order(self):
        first = self.history.send(True, 1, 0, 1)
        second = self.history.send(True, 1, 0, 1)
        self.history.end(second, True)
        self.history.end(first, True)
        self.history.show(first)
        with self.assertRaises(Violation):
            self.history.read()

    def test_two_connections_have_none(self):
        first = self.history.send(True, 1, 0, 1)
        second = self.history.send(True, 2, 0, 1)
        self.history.end(second, True)
        self.history.end(first, True)
        self.history.show(first)
        self.history.read()

    def test_an_order_that_was_promised_is_kept(self):
        self.history.is_ordered = True
        self.history.write(first=0)
        self.history.flush(is_durable=False)
        later = self.history.write(first=8)
        self.history.cut()
        self.setUp()
        self.history.is_ordered = True
        self.history.write(first=0)
        self.history.flush(is_durable=False)
        later = self.history.write(first=8)
        self.history.show(later)
        with self.assertRaises(Violation):
            self.history.cut()

    def test_a_unit_is_not_torn(self):
        change = self.history.write(first=0, count=8)
        self.history.show(change, [0, 1, 2])
        with self.assertRaises(Violation):
            self.history.cut()

    def test_two_units_may_part(self):
        change = self.history.write(first=0, count=16)
        self.history.show(change, range(8))
        self.history.cut()

    def test_bytes_of_another_sector_are_found(self):
        change = self.history.write(first=0, count=2)
        self.history.show(change)
        self.history.image[:512], self.history.image[512:1024] = (
            self.history.image[512:1024],
            self.history.image[:512],
        )
        with self.assertRaises(Violation):
            self.history.cut()


if __name__ == "__main__":
    unittest.main()
