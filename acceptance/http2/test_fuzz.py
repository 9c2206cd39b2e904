"""Random frames: whatever a client sends, the gateway stays up and serves others."""

import contextlib
import random
import socket
import struct
import time

import hpack
import pytest
from harness import http2

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
KINDS = [*range(11), 0xC, 0x10]
NUMBERS = [0, 1, 2, 3, 8, 255, 16_384, 65_535, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]


class Frames:
    """Frames of one connection, most of them close to what a client sends."""

    def __init__(self, choice):
        self.choice = choice
        self.encoder = hpack.Encoder()
        self.stream = -1
        self.bodies = set()

    def sometimes(self, chance):
        return self.choice.random() < chance

    def number(self):
        return struct.pack(">I", self.choice.choice(NUMBERS))

    def block(self):
        method = self.choice.choice(["GET", "POST", "HEAD", "CONNECT"])
        fields = http2.Client.fields(method=method, path=self.choice.choice(["/api/x", "/nowhere", "*"]))
        if self.sometimes(0.3):
            fields.append((self.choice.choice(["content-length", "expect", "te", ":protocol", "x"]), self.choice.choice(["0", "5", "100-continue"])))
        if self.sometimes(0.1):
            self.choice.shuffle(fields)
        block = self.encoder.encode(fields)
        return self.broken(block) if self.sometimes(0.05) else block

    def broken(self, data):
        data = bytearray(data or b"\0")
        for _ in range(self.choice.randrange(1, 4)):
            data[self.choice.randrange(len(data))] = self.choice.randrange(256)
        return bytes(data)

    def any_stream(self):
        return self.choice.choice([0, max(0, self.stream), max(0, self.stream - 2), self.stream + 2, 2, 1 << 30])

    def next(self):
        frame, choice = http2.Client.frame, self.choice
        match choice.randrange(12):
            case 0 | 1 | 2 | 3:
                self.stream += 2
                return frame(1, choice.choice([4, 5, 5, 5, 0, 1, 0x24, 0x2C]), self.stream, self.block())
            case 4 | 5:
                flags = choice.choice([0, 0, 1, 8, 9])
                return frame(0, flags, self.any_stream(), bytes([choice.randrange(4)]) + b"x" * choice.choice([0, 5, 100, 16_000]))
            case 6:
                return frame(8, 0, self.any_stream(), self.number())
            case 7:
                settings = b"".join(struct.pack(">H", choice.randrange(10)) + self.number() for _ in range(choice.randrange(3)))
                return frame(4, choice.choice([0, 0, 1]), 0, settings)
            case 8:
                return frame(3, 0, self.any_stream(), self.number())
            case 9:
                return frame(choice.choice([9, 1]), choice.choice([0, 4, 5]), self.any_stream(), self.block())
            case 10:
                return frame(choice.choice([6, 7, 5, 2]), choice.choice([0, 1]), self.any_stream(), self.number() * choice.choice([1, 2]) + b"abc")
            case _:
                return frame(choice.choice(KINDS), choice.randrange(256), self.any_stream(), choice.randbytes(choice.choice([0, 1, 4, 5, 6, 8, 50])))


def attack(port, choice):
    """One connection; reads what comes so that nobody waits for room."""
    frames = Frames(choice)
    with socket.create_connection(("127.0.0.1", port), 5) as connection, contextlib.suppress(OSError):
        data = PREFACE + http2.Client.frame(4, 0, 0)
        for _ in range(choice.randrange(1, 60)):
            data += frames.next()
        if choice.random() < 0.1:
            data = frames.broken(data)
        connection.settimeout(0.05)
        for start in range(0, len(data), size := choice.choice([7, 500, 100_000])):
            connection.sendall(data[start : start + size])
            with contextlib.suppress(TimeoutError):
                if choice.random() < 0.05:
                    connection.recv(65_536)
        with contextlib.suppress(TimeoutError):
            while connection.recv(65_536):
                pass


@pytest.mark.parametrize("seconds", [10, pytest.param(600, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
def test_random_frames(served, seed, seconds):
    choice = random.Random(seed)
    gateway = served()
    ends = time.monotonic() + seconds
    count = 0
    while time.monotonic() < ends:
        attack(gateway.port, choice)
        count += 1
        assert gateway.process.poll() is None, gateway.text()
        if count % 50 == 0:
            with contextlib.closing(gateway.client()) as client:
                assert client.ask().status == 200
    assert count > seconds
