"""Sectors that name the write they come from: run, address, number, writer, checksum."""

import struct
import zlib

SECTOR = 512
ZEROS = bytes(SECTOR)

_FIELDS = struct.Struct("<QQQI")
_CHECKSUM = struct.Struct("<I")
_REPEATS = SECTOR // (_FIELDS.size + _CHECKSUM.size)


def write(run, first, count, number, writer):
    """Returns the bytes of a write of `count` sectors from sector `first` on."""
    sectors = []
    for address in range(first, first + count):
        head = _FIELDS.pack(run, address, number, writer)
        sectors.append((head + _CHECKSUM.pack(zlib.crc32(head))) * _REPEATS)
    return b"".join(sectors)


def read(run, address, data):
    """Returns the number of a sector's write, 0 for zeros, or a message about other bytes."""
    if data == ZEROS:
        return 0
    head = data[: _FIELDS.size]
    whole = head + _CHECKSUM.pack(zlib.crc32(head))
    if data[: len(whole)] != whole:
        return "no stamp"
    found_run, found_address, number, _ = _FIELDS.unpack(head)
    if data != whole * _REPEATS:
        return f"a sector that is torn: it begins as write {number}"
    if found_run != run:
        return "a stamp of another run"
    if found_address != address:
        return f"the bytes of sector {found_address}, write {number}"
    return number
