#!/usr/bin/python3 -B
"""Clients that mean harm to a server, each kind in a thread of its own, until
this process is killed:

    attackers.py HOST:PORT [--tls=FOLDER] [--kinds=NAME,NAME]

FOLDER holds a worker's certificate; without it they know none. Each kind makes
so many steps a second and not more, whoever listens, so that the same attackers
cost the machine the same beside any server. They come from 127.0.0.2: another
host than the workers', as far as a server can see."""

import argparse
import itertools
import os
import random
import resource
import select
import socket
import ssl
import struct
import threading
import time

import raw_grpc
from raw_grpc import DATA, END_HEADERS, HEADERS, SETTINGS, field, frame

SOURCE = "127.0.0.2"
STEPS_PER_SECOND = 100
MESSAGE_BYTES = 6 << 20
PUSH = "/sluice.proto.Exchange/Push"
PULL = "/sluice.proto.Exchange/Pull"
SESSION = "/sluice.proto.Coordinator/Session"


def connect(address):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=2,
                                    source_address=(SOURCE, 0))


class Peer:
    """An HTTP/2 connection that sends what it is told and obeys no limit but
    the flow-control windows, which gRPC enforces."""

    def __init__(self, address, tls):
        self.socket = connect(address)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket)
        self.socket.setblocking(False)
        self.unsent = bytearray(raw_grpc.PREFACE + frame(SETTINGS, 0, 0))
        self.received = b""
        self.windows = {0: 65535}
        self.streams = 0

    def call(self, method):
        """Opens a stream; its number."""
        number = 2 * self.streams + 1
        self.streams += 1
        self.windows[number] = 65535
        self.unsent += frame(HEADERS, END_HEADERS, number,
                             raw_grpc.headers(method))
        return number

    def send(self, stream, body):
        """As much of the body as the windows allow; how much that was."""
        size = min(self.windows[0], self.windows[stream], len(body), 16384)
        if size <= 0 or len(self.unsent) > 1 << 20:
            return 0
        self.windows[0] -= size
        self.windows[stream] -= size
        self.unsent += frame(DATA, 0, stream, body[:size])
        return size

    def pump(self, read=True):
        """Sends what can be sent and reads what is there. False: the server
        has closed the connection."""
        try:
            while self.unsent:
                del self.unsent[:self.socket.send(self.unsent)]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            return False
        try:
            while read:
                part = self.socket.recv(65536)
                if not part:
                    return False
                self.received += part
                self._parse()
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        except OSError:
            return False
        return True

    def _parse(self):
        while len(self.received) >= 9:
            size = int.from_bytes(self.received[:3], "big")
            if len(self.received) < 9 + size:
                return
            kind = self.received[3]
            stream = int.from_bytes(self.received[5:9], "big")
            if kind == raw_grpc.WINDOW_UPDATE and stream in self.windows:
                self.windows[stream] += int.from_bytes(
                    self.received[9:9 + size], "big")
            self.received = self.received[9 + size:]

    def close(self):
        self.socket.close()


def prefixed(message):
    """As gRPC sends a message: its length first."""
    return b"\0" + struct.pack(">I", len(message)) + message


# Each kind is a generator: it makes one step each time it is resumed.


def silent_connections(address, tls):
    """1,000 connections that never say anything, opened again when closed."""
    held = {}
    closed = select.poll()  # select() knows no descriptor above 1,023.
    while True:
        if len(held) < 1000:
            one = connect(address)
            held[one.fileno()] = one
            closed.register(one, select.POLLIN)
        for descriptor, _ in closed.poll(0):
            closed.unregister(descriptor)
            held.pop(descriptor).close()
        yield


def half_handshakes(address, tls):
    """A ClientHello, and nothing more."""
    held = []
    while True:
        out = ssl.MemoryBIO()
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False
        try:
            client.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
        except ssl.SSLWantReadError:
            pass
        held.append(connect(address))
        held[-1].sendall(out.read())
        if len(held) > 200:
            held.pop(0).close()
        yield


def garbage(address, tls):
    """Bytes that mean nothing, also after a beginning that does."""
    chance = random.Random(1)
    for beginning in itertools.cycle([b"", raw_grpc.PREFACE, b"\x16\x03\x01"]):
        with connect(address) as one:
            one.sendall(beginning + chance.randbytes(4096))
        yield


def _streams(address, tls, method, peers, calls, first=b"", read=True):
    """`peers` connections with `calls` calls each, whose bodies begin with
    `first`; whatever is closed is opened again."""
    held = []
    for turn in itertools.count():
        if len(held) < peers:
            peer = Peer(address, tls)
            for _ in range(calls):
                stream = peer.call(method)
                if first:
                    peer.send(stream, first)
            held.append(peer)
        peer = held[turn % len(held)]
        if not peer.pump(read):
            held.remove(peer)
            peer.close()
        yield


def silent_streams(address, tls):
    """2,000 calls that bring nothing, as many on a connection as may be."""
    return _streams(address, tls, PUSH, peers=63, calls=32)


def streams_without_limit(address, tls):
    """2,000 calls on one connection, which acknowledges no setting."""
    return _streams(address, tls, PUSH, peers=1, calls=2000)


def silent_sessions(address, tls):
    """Sessions without a Join."""
    return _streams(address, tls, SESSION, peers=60, calls=8)


def slow_readers(address, tls):
    """Pulls of everything, of which nothing is read."""
    request = field(1, 1) + field(5, 1)
    return _streams(address, tls, PULL, peers=50, calls=8,
                    first=prefixed(request), read=False)


def _bodies(address, tls, method, body, peers, calls):
    """The same long body in each call; again when it has been sent."""
    held = []
    for turn in itertools.count():
        if len(held) < peers:
            peer = Peer(address, tls)
            held.append((peer, {peer.call(method): 0 for _ in range(calls)}))
        peer, sent = held[turn % len(held)]
        moved = 0
        for stream in sent:
            # A stretch as often as the windows allow, then the next stream.
            while count := peer.send(stream, body[sent[stream]:
                                                  sent[stream] + 16384]):
                sent[stream] += count
                moved += count
        alive = peer.pump()
        if not alive or all(at == len(body) for at in sent.values()):
            held.remove((peer, sent))
            peer.close()
        yield


def joins(address, tls):
    """Joins of 6 MB for another job."""
    job = b"#" * (MESSAGE_BYTES - 100)
    join = field(1, 1) + field(2, 0) + field(3, b"other") + field(4, job)
    return _bodies(address, tls, SESSION, prefixed(field(1, join)), 4, 1)


def unfinished_pushes(address, tls):
    """First chunks of 6 MB that lack their last byte."""
    body = prefixed(bytes(MESSAGE_BYTES))[:-1]
    return _bodies(address, tls, PUSH, body, 25, 8)


def endless_pushes(address, tls):
    """A first chunk that says it has 1 GiB."""
    body = struct.pack(">BI", 0, 1 << 30) + bytes(256 << 20)
    return _bodies(address, tls, PUSH, body, 1, 1)


STRANGERS = [silent_connections, half_handshakes, garbage]
INSIDERS = [silent_streams, streams_without_limit, silent_sessions,
            slow_readers, joins, unfinished_pushes, endless_pushes]
KINDS = {kind.__name__: kind for kind in STRANGERS + INSIDERS}


def attack(kind, address, tls):
    while True:
        try:
            for _ in kind(address, tls):
                time.sleep(1 / STEPS_PER_SECOND)  # The pace of its steps.
        except OSError:
            time.sleep(1 / STEPS_PER_SECOND)  # Refused: once more, all of it.


def end_with(failed):
    """Ends this process: an attack of fewer kinds than asked for is another."""
    threading.__excepthook__(failed)
    os._exit(1)


def main():
    threading.excepthook = end_with
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--tls")
    parser.add_argument("--kinds", default=",".join(KINDS))
    flags = parser.parse_args()
    tls = None
    if flags.tls:
        tls = ssl.create_default_context(cafile=f"{flags.tls}/ca.crt")
        tls.check_hostname = False
        tls.load_cert_chain(f"{flags.tls}/tls.crt", f"{flags.tls}/tls.key")
        tls.set_alpn_protocols(["h2"])
    names = flags.kinds.split(",")
    if unknown := [name for name in names if name not in KINDS]:
        parser.error(f"--kinds: expected some of {', '.join(KINDS)}, got "
                     f"{', '.join(unknown)}")
    for name in names:
        threading.Thread(target=attack, args=(KINDS[name], flags.address, tls),
                         daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
