"""A disk that is the only file of a FUSE file system."""

import errno
import os
import selectors
import sys

import fuse
from disk import CHANGE, FLUSH, READ, Disk, Remote, Request, serve


class FileRequest(Request):
    """A request of the kernel."""

    def __init__(self, descriptor, request):
        self.descriptor = descriptor
        self.request = request
        if request.operation == fuse.READ:
            super().__init__(READ, *fuse.read_range(request))
        elif request.operation == fuse.WRITE:
            offset, data = fuse.write_data(request)
            super().__init__(CHANGE, offset, len(data), data)
        elif request.operation == fuse.FALLOCATE:
            offset, size, mode = fuse.fallocate_range(request)
            changes = mode & (fuse.PUNCH_HOLE | fuse.ZERO_RANGE)
            super().__init__(CHANGE, offset, size if changes else 0)
        else:
            super().__init__(FLUSH)

    def answer(self, data=b"", error=0):
        """Answers the kernel."""
        if self.request.operation == fuse.WRITE and not error:
            data = self.size.to_bytes(8, "little")
        fuse.answer(self.descriptor, self.request, data, error)


class FileDisk(Disk):
    """The disk, and the descriptor of its file system."""

    def __init__(self, mount_point, *disk):
        super().__init__(*disk)
        self.descriptor = fuse.mount(mount_point)
        self.selector.register(self.descriptor, selectors.EVENT_READ, self.receive)
        os.set_blocking(self.descriptor, False)

    def receive(self):
        """Takes requests from the kernel until there is none."""
        for _ in range(64):
            try:
                data = os.read(self.descriptor, fuse.BUFFER_SIZE)
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno in (errno.ENOENT, errno.EINTR):
                    continue
                sys.exit(0)
            request = fuse.Request(memoryview(data))
            if not fuse.answer_metadata(self.descriptor, request, len(self.cache.image)):
                self.begin(FileRequest(self.descriptor, request))


class RemoteFile(Remote):
    """The file and its disk, for their owner."""

    def __init__(self, directory, *disk):
        self.mount_point = os.path.join(directory, "mount")
        os.makedirs(self.mount_point)
        self.backing = os.path.join(self.mount_point, fuse.NAME.decode())
        super().__init__(os.path.abspath(__file__), self.mount_point, directory, *disk)

    def close(self):
        """Ends the disk and its file system."""
        fuse.unmount(self.mount_point)
        super().close()


if __name__ == "__main__":
    serve(FileDisk)
