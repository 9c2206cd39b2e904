"""An origin that closes each idle connection a random 0-5 ms after its answer, as a process: `hasty_origin.py SEED`.

One request in twenty it does and then resets the connection instead of answering; never the first of a connection, so that
whoever repeats it on a new one succeeds. Prints its port. `GET /_count` answers how often each request was done, by its `X-Id`,
and which were done without an answer; everything else is answered with that id and the hash of the body, which tell an answer
from another's.
"""

import asyncio
import collections
import hashlib
import json
import random
import socket
import struct
import sys

#: How many of the requests on a connection that is used again are done and not answered.
UNANSWERED = 0.05


class Hasty(asyncio.Protocol):
    source = random.Random(int(sys.argv[1]))
    ids = collections.Counter()
    unanswered = []

    def connection_made(self, transport):
        self.transport = transport
        self.buffer = b""
        self.timer = None
        self.is_reused = False

    def data_received(self, data):
        if self.timer:
            self.timer.cancel()
            self.timer = None
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, _, rest = self.buffer.partition(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            length = int(fields.get(b"content-length", 0))
            if len(rest) < length:
                return
            body, self.buffer = rest[:length], rest[length:]
            if head.startswith(b"GET /_count"):
                self.answer(json.dumps({"done": Hasty.ids, "unanswered": Hasty.unanswered}).encode())
                continue
            name = fields[b"x-id"].decode()
            Hasty.ids[name] += 1
            if self.is_reused and self.source.random() < UNANSWERED:
                Hasty.unanswered.append(name)
                return self.reset()
            self.is_reused = True
            self.answer(f"{name} {hashlib.sha256(body).hexdigest()}".encode())
            self.timer = asyncio.get_running_loop().call_later(self.source.uniform(0, 0.005), self.transport.close)

    def answer(self, body):
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def reset(self):
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def connection_lost(self, exception):
        if self.timer:
            self.timer.cancel()


async def main():
    server = await asyncio.get_running_loop().create_server(Hasty, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
