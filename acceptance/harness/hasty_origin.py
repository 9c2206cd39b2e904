"""An origin that closes each idle connection a random 0-5 ms after its answer, as a process: `hasty_origin.py SEED`.

Prints its port. `GET /_count` answers how many requests came and which ids came more than once; everything else is answered
with 200 and counted by its `X-Id`.
"""

import asyncio
import collections
import json
import random
import sys


class Hasty(asyncio.Protocol):
    source = random.Random(int(sys.argv[1]))
    ids = collections.Counter()

    def connection_made(self, transport):
        self.transport = transport
        self.buffer = b""
        self.timer = None

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
            self.buffer = rest[length:]
            if head.startswith(b"GET /_count"):
                twice = [key.decode() for key, count in self.ids.items() if count > 1]
                body = json.dumps({"requests": self.ids.total(), "twice": twice}).encode()
            else:
                Hasty.ids[fields[b"x-id"]] += 1
                body = b"ok"
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            if not head.startswith(b"GET /_count"):
                delay = self.source.uniform(0, 0.005)
                self.timer = asyncio.get_running_loop().call_later(delay, self.transport.close)

    def connection_lost(self, exception):
        if self.timer:
            self.timer.cancel()


async def main():
    server = await asyncio.get_running_loop().create_server(Hasty, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
