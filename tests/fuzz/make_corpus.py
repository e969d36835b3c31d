#!/usr/bin/python3 -B
"""Writes the seeds of tests/fuzz/corpus, from messages that Sluice really
exchanges.

Messages are encoded by the machine's protoc, so run it again when the protos
change. Findings in the corpus, which are not made from seeds, are left alone.
"""

import gzip
import io
import pathlib
import struct
import subprocess
import tarfile

from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KEY = "key { generation: 1 worker: %d incarnation: 1 sequence: %d }"


def encode(message, text, file="coordinator"):
    return subprocess.run(
        ["protoc", "-I.", f"--encode=sluice.proto.{message}",
         f"proto/{file}.proto"],
        cwd=ROOT, input=text.encode(), capture_output=True,
        check=True).stdout


def seed(target, name, content):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


# ---- Chunks. ----

def floats(count):
    # In C notation, for protobuf's text.
    return "".join(f"\\x{b:02x}" for b in struct.pack(f"<{count}f",
                                                      *range(count)))


def chunks():
    pull = encode("PullChunk", "version: 7 offset: 64 type: FP32 "
                  f'data: "{floats(22)}"', "exchange")
    push = encode("PushChunk",
                  f'{KEY % (0, 1)} grant: "sixteen bytes ok" '
                  'offset: 128 type: FP32 '
                  f'data: "{floats(22)}"', "exchange")
    negative = encode("PushChunk", "key { generation: -1 worker: 300 } "
                      'grant: "short" offset: -7', "exchange")
    # Unknown fields: a varint, 8 bytes, a string, a group, 4 bytes.
    unknown = bytes.fromhex("a00101" "a1010102030405060708" "a2010178"
                            "a301a00102a401" "a50101020304")
    key = bytes.fromhex("0a04") + bytes.fromhex("a301a401")
    seed("chunk", "pull", b"\x00" + pull)
    seed("chunk", "pull_by_threes", b"\x06" + pull + unknown)
    seed("chunk", "push", b"\x01" + push)
    seed("chunk", "push_by_bytes", b"\x03" + unknown + push)
    # The first chunk of 64: two bytes each, and for FP16 one for each 16.
    for kind, data in (("BF16", "\\x80\\x3f" * 64),
                       ("FP16", "\\x00\\x74" * 64 + "\\x0e" * 4)):
        seed("chunk", "push_" + kind.lower(), b"\x01" + encode(
            "PushChunk", f'{KEY % (0, 1)} grant: "sixteen bytes ok" '
            f'type: {kind} data: "{data}"', "exchange"))
    seed("chunk", "push_negative", b"\x01" + negative)
    seed("chunk", "push_group_in_key", b"\x01" + key)
    # Nested groups, as deep as protobuf follows them, outside and in a key.
    for depth in (99, 100):
        nested = b"\xa3\x01" * depth + b"\xa4\x01" * depth
        seed("chunk", f"groups_{depth}", b"\x01" + nested)
        seed("chunk", f"groups_{depth}_in_key",
             b"\x01\x0a" + bytes([len(nested) & 127 | 128, len(nested) >> 7])
             + nested)


# ---- Sessions: an event is a kind, a count and a frame of so many bytes. ----

def event(kind, frame):
    assert len(frame) < 256, frame
    return bytes([kind, len(frame)]) + frame


def client_sessions():
    def frame(text):
        return event(0, encode("FromCoordinator", text))
    welcome = frame('welcome { generation: 1 incarnation: 1 '
                    'shard_addresses: "a:1" heartbeat_every_s: 1 }')
    cut, send, write, wait = b"\x04\x0e", b"\x05\x00", b"\x06\x00", b"\x07\x04"
    worker = [
        frame(f"sequence: 1 task {{ {KEY % (0, 1)} grant: \"g\" batches: 1 }}"),
        frame(f'sequence: 2 ack: 1 cancel {{ {KEY % (0, 1)} reason: "x" }}'),
        frame(f"sequence: 3 verdict {{ {KEY % (0, 1)} outcome: CANCELLED }}"),
        frame('sequence: 4 finish { reason: "stop.updates" }')]
    shard = [
        frame("sequence: 1 decision { number: 1 restore { generation: 1 "
              'grant_secret: "s" } }'),
        frame(f"sequence: 2 decision {{ number: 2 commit {{ version: 1 "
              f"learning_rate: 0.1 pin: true entry {{ {KEY % (0, 1)} "
              f"weight: 0.5 }} entry {{ {KEY % (1, 1)} weight: 0.5 }} }} }}"),
        frame("sequence: 3 decision { number: 3 discard { key { generation: 1 "
              "worker: 2 incarnation: 1 sequence: 1 } } }"),
        frame("sequence: 4 decision { number: 4 pin: 1 }"),
        frame("sequence: 5 decision { number: 5 release: 1 }"),
        frame('sequence: 6 finish { failure: "diverged" }')]
    seed("client_session", "worker",
         b"\x00" + welcome + send + write + b"".join(worker) + write)
    seed("client_session", "shard", b"\x01" + welcome + b"".join(shard))
    seed("client_session", "resumed",
         b"\x01" + welcome + shard[0] + cut + wait + welcome + shard[0] +
         shard[1] + write)
    aborted = b"\x04\x0a"
    seed("client_session", "aborted_early",
         b"\x00" + frame("welcome { generation: 1 incarnation: 1 }") +
         worker[0] + aborted +
         frame('welcome { generation: 1 incarnation: 2 shard_addresses: "a:1"'
               ' }') + worker[0] + write)


def coordinator_sessions():
    def join(connection, role, number, incarnation=0):
        return event(connection, encode(
            "ToCoordinator", f'join {{ role: {role} id: {number} '
            f'fingerprint: "abc" address: "a:1" process: "p" '
            f'incarnation: {incarnation} '
            f'session_secret: "secret of link {connection}" }}'))

    def say(connection, sequence, text):
        return event(connection, encode(
            "ToCoordinator", f"sequence: {sequence} {text}"))

    def ready(connection, worker, sequence, version, at=None):
        return say(connection, sequence if at is None else at,
                   f"ready {{ {KEY % (worker, sequence)} "
                   f"shard_base: {version} shard_base: {version} "
                   f"samples: 10 loss: 0.5 }}")

    def executed(decisions, version):
        return b"".join(
            say(c, decisions, f"executed {{ decision: {decisions} "
                f"version: {version} }}") for c in (0, 1))

    joins = (join(0, "SHARD", 0) + join(1, "SHARD", 1) +
             join(2, "WORKER", 0) + join(3, "WORKER", 1))
    start = joins + executed(1, 0)
    update = ready(2, 0, 1, 0) + ready(3, 1, 1, 0) + executed(2, 1)
    heartbeat = event(2, encode("ToCoordinator", "heartbeat {}"))
    for policy in range(6):
        seed("coordinator_session", f"policy_{policy}",
             bytes([policy]) + start + update + heartbeat +
             ready(2, 0, 2, 1) + ready(3, 1, 2, 1) + executed(3, 2))
    broken, wait = b"\x0a\x00", b"\x12\x14"
    seed("coordinator_session", "resumed",
         b"\x00" + start + broken + wait + join(2, "WORKER", 0, 1) + update)
    seed("coordinator_session", "replaced",
         b"\x03" + start + broken + join(4, "WORKER", 0) +
         ready(3, 1, 1, 0))
    seed("coordinator_session", "rejected",
         b"\x10" + start +
         say(2, 1, f'rejected {{ {KEY % (0, 1)} reason: "NaN" }}') +
         ready(3, 1, 1, 0))
    seed("coordinator_session", "left_and_fault",
         b"\x01" + start + say(3, 1, 'leave { reason: "SIGTERM" }') +
         say(0, 2, 'executed { decision: 2 fault: "gradient missing" }'))
    evaluated = say(4, 1, "evaluated { version: 2 loss: 0.25 accuracy: 0.5 "
                    'samples: 100 }')
    seed("coordinator_session", "evaluated",
         b"\x08" + joins + join(4, "EVALUATOR", 0) + executed(1, 0) + update +
         evaluated + executed(3, 1))


# ---- Data files. ----

def idx_files():
    def header(*shape):
        return bytes([0, 0, 8, len(shape)]) + struct.pack(
            f">{len(shape)}I", *shape)
    images, labels = header(2, 3, 4) + bytes(range(24)), header(5) + b"12345"
    seed("idx", "images", b"\x02" + images)
    seed("idx", "labels", b"\x00" + labels)
    seed("idx", "cut", b"\x02" + images[:-3])
    seed("idx", "goes_on", b"\x00" + labels + b"6")
    seed("idx", "claims_too_much", b"\x03" + header(65535, 65535, 65535, 2))
    packed = gzip.compress(images, mtime=0)
    seed("idx", "packed", b"\x06" + packed)
    seed("idx", "packed_cut", b"\x06" + packed[:-6])
    seed("idx", "packed_damaged", b"\x06" + packed[:20] + b"x" + packed[21:])


def images():
    def tar(format, *members):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w", format=format) as file:
            for name, content in members:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))
        return archive.getvalue()[:4096]

    def jpeg(mode, **options):
        picture = Image.new(mode, (20, 18))
        picture.putdata([(7 * i % 256,) * len(mode) if len(mode) > 1
                         else 7 * i % 256 for i in range(360)])
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=30, **options)
        return file.getvalue()
    sample = (("1.cls", b"3"), ("1.jpg", b"pixels"))
    for name, format in (("ustar", tarfile.USTAR_FORMAT),
                         ("gnu", tarfile.GNU_FORMAT),
                         ("pax", tarfile.PAX_FORMAT)):
        seed("images", name, b"\0" + tar(format, *sample))
    long = "n" * 120
    for name, format in (("gnu_long", tarfile.GNU_FORMAT),
                         ("pax_long", tarfile.PAX_FORMAT)):
        seed("images", name, b"\0" + tar(format, (long + ".cls", b"3"),
                                         (long + ".jpg", b"")))
    for name, image in (("colours", jpeg("RGB")), ("grey", jpeg("L")),
                        ("cmyk", jpeg("CMYK")),
                        ("progressive", jpeg("RGB", progressive=True)),
                        ("cut", jpeg("RGB")[:-60])):
        seed("images", name, bytes([1, 3, 5, 9, 8]) + image)


# ---- Jobs. ----

def jobs():
    # run.sh adds the jobs of configs/.
    linear = (ROOT / "configs/linear_regression.textproto").read_bytes()
    seed("job", "overrides", b"\0".join([
        linear, b"sync.policy=K_SYNC", b"sync.k=2",
        b"model.layer[0].dense.units=1", b"schedule.cosine={epochs: 5}",
        b"optimizer.adam={}"]))
    seed("job", "wrong_overrides", b"\0".join([
        linear, b"model.layer[9].dense.units=1"]))


if __name__ == "__main__":
    chunks()
    client_sessions()
    coordinator_sessions()
    idx_files()
    images()
    jobs()
