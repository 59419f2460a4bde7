"""The server's side of the NBD protocol on one connection, without sockets and without a library.

Source: https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md
"""

import struct

READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 2, 3, 4, 6
SERVED = (READ, WRITE, FLUSH, TRIM, WRITE_ZEROES)
FUA = 1

HAS_FLAGS, SENDS_FLUSH, SENDS_FUA, SENDS_TRIM, SENDS_ZEROES, SEVERAL = 1, 4, 8, 32, 64, 256

_GREETING = b"NBDMAGIC" + b"IHAVEOPT" + struct.pack(">H", 3)
_OPTION = struct.Struct(">8sII")
_OPTION_REPLY = struct.Struct(">QIII")
_REQUEST = struct.Struct(">IHHQQI")
_REPLY = struct.Struct(">IIQ")
_OPTION_REPLY_MAGIC, _REQUEST_MAGIC, _REPLY_MAGIC = 0x3E889045565A9, 0x25609513, 0x67446698
_EXPORT_NAME, _ABORT, _START_TLS, _INFO, _GO = 1, 2, 5, 6, 7
_ACK, _INFORMATION, _UNSUPPORTED, _NEEDS_TLS = 1, 3, 1 << 31 | 1, 1 << 31 | 5
_INFO_EXPORT, _INFO_BLOCK_SIZE = 0, 3
REQUEST_MAX = 32 << 20


class Ended(Exception):
    """The client ends the connection, or breaks the protocol."""


class Command:
    """A request of the client."""

    def __init__(self, flags, kind, cookie, offset, size, data):
        self.is_fua = bool(flags & FUA)
        self.kind = kind
        self.cookie = cookie
        self.offset = offset
        self.size = size
        self.data = data


class Connection:
    """What has been received and not been understood yet, and what is to be sent."""

    def __init__(self, size, flags, needs_tls=False):
        self.size = size
        # Whether the client must start TLS, and has asked for that.
        self.needs_tls = needs_tls
        self.starts_tls = False
        self.flags = HAS_FLAGS | flags
        self.received = bytearray()
        self.to_send = bytearray(_GREETING)
        self.stage = self._client_flags

    def feed(self, data):
        """Takes bytes from the client; returns the commands that are whole."""
        self.received += data
        commands = []
        while (step := self.stage()) is not None:
            if isinstance(step, Command):
                commands.append(step)
        return commands

    def reply(self, cookie, error=0, data=b""):
        """Answers a command."""
        self.to_send += _REPLY.pack(_REPLY_MAGIC, error, cookie) + data

    def _take(self, count):
        taken = bytes(self.received[:count])
        del self.received[:count]
        return taken

    def _client_flags(self):
        if len(self.received) < 4:
            return None
        self._take(4)
        self.stage = self._option
        return True

    def _option(self):
        if len(self.received) < _OPTION.size:
            return None
        magic, option, length = _OPTION.unpack_from(self.received)
        if magic != b"IHAVEOPT" or length > 1 << 16:
            raise Ended
        if len(self.received) < _OPTION.size + length:
            return None
        self._take(_OPTION.size + length)
        if option == _ABORT:
            raise Ended
        if option == _START_TLS and self.needs_tls:
            self._answer_option(option, _ACK)
            self.needs_tls, self.starts_tls = False, True
            return None
        if self.needs_tls:
            self._answer_option(option, _NEEDS_TLS)
            return True
        if option == _EXPORT_NAME:
            self.to_send += struct.pack(">QH", self.size, self.flags)
            self.stage = self._command
        elif option in (_INFO, _GO):
            export = struct.pack(">HQH", _INFO_EXPORT, self.size, self.flags)
            blocks = struct.pack(">HIII", _INFO_BLOCK_SIZE, 1, 4096, REQUEST_MAX)
            self._answer_option(option, _INFORMATION, export)
            self._answer_option(option, _INFORMATION, blocks)
            self._answer_option(option, _ACK)
            self.stage = self._command if option == _GO else self._option
        else:
            self._answer_option(option, _UNSUPPORTED)
        return True

    def _answer_option(self, option, kind, data=b""):
        header = _OPTION_REPLY.pack(_OPTION_REPLY_MAGIC, option, kind, len(data))
        self.to_send += header + data

    def _command(self):
        if len(self.received) < _REQUEST.size:
            return None
        magic, flags, kind, cookie, offset, size = _REQUEST.unpack_from(self.received)
        carried = size if kind == WRITE else 0
        if magic != _REQUEST_MAGIC or kind == DISCONNECT or carried > REQUEST_MAX:
            raise Ended
        if len(self.received) < _REQUEST.size + carried:
            return None
        self._take(_REQUEST.size)
        return Command(flags, kind, cookie, offset, size, self._take(carried) if carried else None)
