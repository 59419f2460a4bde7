"""A disk that is an export over NBD: its link is cut, and its server dies and comes back.

Requests that the server has received are done although their connection has ended, up to some
seconds later. A server that dies drops some of them, and its volatile cache.
"""

import errno
import heapq
import os
import selectors
import socket
import ssl
import subprocess
import time

import newstyle
from disk import CHANGE, FLUSH, READ, Disk, Remote, Request, serve

BUFFER_SIZE = 1 << 20
# Longest time that a request may take after its connection has ended. The program allows 30.
LATE_SECONDS = 6


class ExportRequest(Request):
    """A request of a client, which is answered as long as its connection lives."""

    def __init__(self, link, command):
        self.link = link
        self.command = command
        if command.kind == newstyle.READ:
            super().__init__(READ, command.offset, command.size)
        elif command.kind == newstyle.FLUSH:
            super().__init__(FLUSH)
        else:
            data = command.data if command.kind == newstyle.WRITE else None
            super().__init__(CHANGE, command.offset, command.size, data, command.is_fua)

    def answer(self, data=b"", error=0):
        """Answers the client."""
        self.link.answer(self.command.cookie, error, data)


class Link:
    """One connection: its socket, and its part of the protocol."""

    def __init__(self, disk, connection):
        self.disk = disk
        self.socket = connection
        needs_tls = disk.tls is not None
        self.protocol = newstyle.Connection(len(disk.cache.image), disk.flags, needs_tls)
        # The session, once there is one, and encrypted bytes from and to the client.
        self.session = None
        self.encrypted, self.to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.outgoing = bytearray()
        connection.setblocking(False)
        disk.selector.register(connection, selectors.EVENT_READ, self.move)

    def move(self):
        """Receives what has come, and sends what is to be sent."""
        try:
            if self in self.disk.links:
                self._receive()
            # A request may have ended the connection.
            if self in self.disk.links:
                self._send()
        except (OSError, newstyle.Ended):
            # An error of TLS is one of the system's.
            self.end()

    def _receive(self):
        try:
            received = self.socket.recv(BUFFER_SIZE)
        except BlockingIOError:
            return
        if not received:
            raise newstyle.Ended
        for command in self.protocol.feed(self._decrypt(received)):
            if command.kind in newstyle.SERVED:
                self.disk.begin(ExportRequest(self, command))
            else:
                self.protocol.reply(command.cookie, errno.EINVAL)

        if self.protocol.starts_tls and self.session is None:
            # The answer to the option goes out as it is.
            self.socket.sendall(self.protocol.to_send)
            self.protocol.to_send.clear()
            context, buffers = self.disk.tls, (self.encrypted, self.to_send)
            self.session = context.wrap_bio(*buffers, server_side=True)

    def _decrypt(self, received):
        """Returns the bytes of the protocol in what has been received."""
        if self.session is None:
            return received
        self.encrypted.write(received)
        plain = bytearray()
        try:
            self.session.do_handshake()
            while part := self.session.read(BUFFER_SIZE):
                plain += part
        except ssl.SSLWantReadError:
            pass
        return bytes(plain)

    def _outgoing(self):
        """Returns the bytes to send; what the kernel takes of them is removed by the caller."""
        if self.session is None:
            return self.protocol.to_send
        if self.protocol.to_send:
            self.session.write(self.protocol.to_send)
            self.protocol.to_send.clear()
        self.outgoing += self.to_send.read()
        return self.outgoing

    def _send(self):
        waiting = self._outgoing()
        while waiting:
            try:
                del waiting[: self.socket.send(waiting)]
            except BlockingIOError:
                break
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if waiting else 0)
        self.disk.selector.modify(self.socket, events, self.move)

    def answer(self, cookie, error, data):
        """Sends an answer, unless the link is cut."""
        if self in self.disk.links:
            self.protocol.reply(cookie, error, data)
            self.move()

    def silence(self):
        """Receives and sends nothing more. The other end does not notice."""
        self.disk.links.remove(self)
        self.disk.selector.unregister(self.socket)

    def end(self):
        """Ends the connection. Requests that have been received are still done."""
        if self in self.disk.links:
            self.silence()
            self.socket.close()


class ExportDisk(Disk):
    """The disk, the socket at which it is served, and its connections."""

    def __init__(self, path, *disk):
        super().__init__(*disk)
        # Without FUA, what is written through is lost by a restart, and the volume fails.
        self.flags = newstyle.SENDS_FLUSH | newstyle.SEVERAL | newstyle.SENDS_FUA
        for flag in (newstyle.SENDS_TRIM, newstyle.SENDS_ZEROES):
            self.flags |= flag if self.choice.random() < 0.8 else 0
        self.tls = context_of(path)
        self.links = []
        # Connections that are still open and carry nothing, each with the time of its end.
        self.silent = []
        self.reachable_at = 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)

    def accept(self):
        """Takes a connection, which ends at once while nobody can reach the server."""
        connection, _ = self.listener.accept()
        if time.monotonic() < self.reachable_at or not self.has_power:
            connection.close()
            return
        link = Link(self, connection)
        self.links.append(link)
        link.move()

    def do(self, command):
        """Does one command; those to the link as well."""
        verb = command["verb"]
        if verb == "unlink":
            self.unlink(command["seconds"], command["silent"])
        elif verb == "restart":
            self.restart(command["seconds"])
        else:
            super().do(command)

    def unlink(self, seconds, silent):
        """Cuts the link for a time. What the server has received is done, some of it much later."""
        self.reachable_at = time.monotonic() + seconds
        for link in self.links[:]:
            link.silence()
            self.silent.append((self.reachable_at if silent else 0, link))
        under_way, self.queue = self.queue, []
        for at, order, action, request in under_way:
            late = self.choice.random() * LATE_SECONDS if self.choice.random() < 0.5 else 0
            heapq.heappush(self.queue, (at + late, order, action, request))

    def restart(self, seconds):
        """Ends the server; another one starts after a time, without the volatile cache."""
        self.cut()
        self.reachable_at = time.monotonic() + seconds

    def do_due(self):
        """Does the actions that are due, and ends silent connections."""
        now = time.monotonic()
        for end, link in self.silent:
            if end <= now:
                link.socket.close()
        self.silent = [(end, link) for end, link in self.silent if end > now]
        waits = [super().do_due(), *(end - now for end, _ in self.silent)]
        return min((wait for wait in waits if wait is not None), default=None)

    def cut(self):
        """Ends all requests and connections, and loses the volatile cache."""
        for link in self.links[:]:
            link.end()
        super().cut()


def certificates_of(path):
    """Returns the directory of the certificates of a server at this socket."""
    return f"{path}-pki"


def context_of(path):
    """Returns how a server at this socket encrypts; None if it has no certificates."""
    directory = certificates_of(path)
    if not os.path.exists(directory):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{directory}/server-cert.pem", f"{directory}/server-key.pem")
    return context


def issue(directory):
    """Makes an authority and a certificate of it for localhost."""
    os.mkdir(directory)

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    request = ["req", "-x509", "-days", "30", *key]
    authority = ["-keyout", "ca-key.pem", "-out", "ca-cert.pem", "-subj", "/CN=checker"]
    openssl(*request, *authority)
    server = ["-keyout", "server-key.pem", "-out", "server-cert.pem", "-subj", "/CN=localhost"]
    signed = ["-CA", "ca-cert.pem", "-CAkey", "ca-key.pem"]
    names = ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=CA:FALSE"]
    openssl(*request, *server, *signed, *names)


class RemoteExport(Remote):
    """The export and its disk, for their owner."""

    def __init__(self, is_encrypted, directory, *disk):
        path = os.path.join(directory, "export")
        self.backing = f"nbd+unix:///?socket={path}"
        if is_encrypted:
            pki = certificates_of(path)
            issue(pki)
            parameters = f"socket={path}&tls-certificates={pki}&tls-hostname=localhost"
            self.backing = f"nbds+unix:///?{parameters}"
        super().__init__(os.path.abspath(__file__), path, directory, *disk)


if __name__ == "__main__":
    serve(ExportDisk)
