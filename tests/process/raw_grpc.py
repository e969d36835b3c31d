"""One gRPC call written by hand, for requests that no proper client would
send."""

import socket
import struct

import harness

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, WINDOW_UPDATE = 0, 1, 4, 8
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload=b""):
    return (struct.pack(">I", len(payload))[1:] +
            struct.pack(">BBI", kind, flags, stream) + payload)


def _literal(name, value):
    """A header that is in no table (RFC 7541, 6.2.2)."""
    return (b"\0" + bytes([len(name)]) + name.encode() +
            bytes([len(value)]) + value.encode())


def headers(method):
    return b"".join(_literal(*pair) for pair in [
        (":method", "POST"), (":scheme", "http"), (":path", method),
        (":authority", "test"), ("te", "trailers"),
        ("content-type", "application/grpc")])


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    """A field of a protobuf message: an integer or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def fixed64(number, value):
    return varint(number << 3 | 1) + struct.pack("<Q", value)


class _Connection:
    """An HTTP/2 connection with one stream, which respects the flow-control
    windows."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)),
                                               timeout=harness.TIMEOUT_S)
        self.window = {0: 65535, 1: 65535}  # The protocol's initial windows.
        self.raw = b""  # Everything received.
        self.at = 0  # Position of the next frame in it.

    def read(self):
        """Reads some bytes and the frames they complete. False at the end."""
        part = self.socket.recv(65536)
        self.raw += part
        while len(self.raw) >= self.at + 9:
            size = int.from_bytes(self.raw[self.at:self.at + 3], "big")
            if len(self.raw) < self.at + 9 + size:
                break
            kind, stream = self.raw[self.at + 3], self.raw[self.at + 8]
            payload = self.raw[self.at + 9:self.at + 9 + size]
            if kind == WINDOW_UPDATE and stream in self.window:
                self.window[stream] += int.from_bytes(payload, "big")
            self.at += 9 + size
        return bool(part)

    def ended(self):
        return b"grpc-status" in self.raw

    def send(self, body):
        """Sends DATA frames until the call ends or all are sent."""
        while body and not self.ended():
            size = min(min(self.window.values()), 16384, len(body))
            if size == 0:
                if not self.read():
                    return
                continue
            for stream in self.window:
                self.window[stream] -= size
            last = END_STREAM if size == len(body) else 0
            self.socket.sendall(frame(DATA, last, 1, body[:size]))
            body = body[size:]


def call(address, method, message):
    """Sends one message, and returns everything received until the call has
    ended, as text. C-core does not encode header values, so grpc-status and
    grpc-message can be read in it."""
    connection = _Connection(address)
    with connection.socket as s:
        s.sendall(PREFACE + frame(SETTINGS, 0, 0) +
                  frame(HEADERS, END_HEADERS, 1, headers(method)))
        connection.send(b"\0" + struct.pack(">I", len(message)) + message)
        while not connection.ended() and connection.read():
            pass
        return connection.raw.decode("latin-1")
