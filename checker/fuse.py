"""The kernel's FUSE protocol for a directory with one file, without a library.

A server reads requests from the descriptor that `mount` returns and answers them in any order.
"""

import array
import errno
import os
import socket
import stat
import struct
import subprocess

LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE = 1, 2, 3, 4, 14, 15, 16
STATFS, RELEASE, FSYNC, FLUSH, INIT, OPENDIR, READDIR = 17, 18, 20, 25, 26, 27, 28
RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET, FALLOCATE = 29, 36, 38, 42, 43

PUNCH_HOLE, ZERO_RANGE, KEEP_SIZE = 2, 16, 1

WRITE_LIMIT = 1 << 20
BUFFER_SIZE = WRITE_LIMIT + 8192

_HEADER = struct.Struct("<IIQQIIII")
_ANSWER = struct.Struct("<IiQ")
_ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
_ENTRY = struct.Struct("<QQQQII")
_INIT = struct.Struct("<IIIIHHIIHHI7I")
_BIG_WRITES, _ASYNC_DIO, _MAX_PAGES, _ASYNC_READ = 1 << 5, 1 << 15, 1 << 22, 1
# Direct I/O, with writes in parallel: the daemon's requests overlap as they do on a disk.
_OPEN_FLAGS = 1 | 1 << 6

ROOT, FILE = 1, 2
NAME = b"disk"


class Request:
    """One request of the kernel: its operation, and the bytes behind its header."""

    __slots__ = ("body", "node", "operation", "unique")

    def __init__(self, data):
        _, self.operation, self.unique, self.node, *_ = _HEADER.unpack_from(data)
        self.body = data[_HEADER.size :]


def mount(directory):
    """Mounts a file system on `directory`; returns the descriptor of its requests."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        environment = dict(os.environ, _FUSE_COMMFD=str(theirs.fileno()))
        options = "fsname=checker,subtype=checker"
        subprocess.run(
            ["fusermount3", "-o", options, "--", directory],
            env=environment,
            pass_fds=[theirs.fileno()],
            check=True,
        )
        _, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
    descriptors = array.array("i")
    descriptors.frombytes(ancillary[0][2][:4])
    return descriptors[0]


def unmount(directory):
    """Takes the file system away, also where something still uses it."""
    subprocess.run(["fusermount3", "-u", "-z", "--", directory], stderr=subprocess.DEVNULL)


def answer(descriptor, request, data=b"", error=0):
    """Answers a request. The kernel may have forgotten it, when its process was killed."""
    header = _ANSWER.pack(_ANSWER.size + len(data), -error, request.unique)
    try:
        os.writev(descriptor, [header, data])
    except OSError as problem:
        if problem.errno not in (errno.ENOENT, errno.ENODEV):
            raise


def attributes(node, size):
    """Returns the attributes of the directory or of its file."""
    mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o600
    length = 0 if node == ROOT else size
    return _ATTRIBUTES.pack(
        node, length, length // 512, 0, 0, 0, 0, 0, 0, mode, 1, os.getuid(), os.getgid(), 0, 4096, 0
    )


def answer_metadata(descriptor, request, size):
    """Answers a request that does not concern the file's bytes. Returns false for the others."""
    operation = request.operation
    if operation in (FORGET, BATCH_FORGET, INTERRUPT):
        return True
    if operation in (READ, WRITE, FSYNC, FALLOCATE):
        return False
    error, data = _metadata(request, size)
    answer(descriptor, request, data, error)
    return True


def _metadata(request, size):
    operation = request.operation
    if operation == INIT:
        return 0, _initialise(request)
    if operation == LOOKUP:
        if request.node != ROOT or bytes(request.body).rstrip(b"\0") != NAME:
            return errno.ENOENT, b""
        return 0, _ENTRY.pack(FILE, 0, 3600, 3600, 0, 0) + attributes(FILE, size)
    if operation in (GETATTR, SETATTR):
        return 0, struct.pack("<QII", 3600, 0, 0) + attributes(request.node, size)
    if operation in (OPEN, OPENDIR):
        flags = _OPEN_FLAGS if operation == OPEN else 0
        return 0, struct.pack("<QII", 0, flags, 0)
    if operation == STATFS:
        return 0, struct.pack("<5Q10I", 0, 0, 0, 1, 0, 4096, 255, 4096, *[0] * 7)
    if operation in (READDIR, FLUSH, RELEASE, RELEASEDIR, DESTROY):
        return 0, b""
    return errno.ENOSYS, b""


def _initialise(request):
    minor = min(struct.unpack_from("<II", request.body)[1], 38)
    flags = _ASYNC_READ | _BIG_WRITES | _ASYNC_DIO | _MAX_PAGES
    pages = WRITE_LIMIT // 4096
    return _INIT.pack(7, minor, 0, flags, 64, 48, WRITE_LIMIT, 1, pages, 0, 0, *[0] * 7)


def read_range(request):
    """Returns offset and size of a read."""
    _, offset, size = struct.unpack_from("<QQI", request.body)
    return offset, size


def write_data(request):
    """Returns offset and bytes of a write."""
    _, offset, size = struct.unpack_from("<QQI", request.body)
    return offset, request.body[40 : 40 + size]


def fallocate_range(request):
    """Returns offset, size and mode of a fallocate."""
    _, offset, size, mode = struct.unpack_from("<QQQI", request.body)
    return offset, size, mode
