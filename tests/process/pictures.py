"""Reads the pictures that the tool draws, for the process tests."""

import struct
import xml.etree.ElementTree as ET
import zlib


def words(svg):
    """The texts in an SVG file, which must be well-formed."""
    return [e.text for e in ET.parse(svg).iter()
            if e.tag.endswith("}text") and e.text]


def points(svg):
    """The number of points of curves in an SVG file, including those in the
    legend."""
    return sum(e.tag.endswith("}use") and e.get("id") is None
               # Points with an id are definitions.
               for e in ET.parse(svg).iter())


def svg_size(svg):
    box = ET.parse(svg).getroot().get("viewBox").split()
    return [float(x) for x in box[2:]]


def png_size(png):
    """Width and height of a PNG file, which must be complete."""
    data = png.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:8]
    at, pixels, size = 8, b"", None
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + length]
        checksum, = struct.unpack_from(">I", data, at + 8 + length)
        assert checksum == zlib.crc32(kind + body), kind
        if kind == b"IHDR":
            size = struct.unpack_from(">II", body)
        elif kind == b"IDAT":
            pixels += body
        at += 12 + length
    assert kind == b"IEND", kind
    assert len(zlib.decompress(pixels)) >= size[0] * size[1] / 8
    return size
