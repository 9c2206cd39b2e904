"""An OAuth 2.0 authority that does little else than answer, as a process: `busy_authority.py SECONDS`, the life of its tokens. Prints
its port. `GET /` says of how many clients it has heard, how many tokens it has issued, and the longest time between two of one client.
`DELETE /` begins to count anew."""

import asyncio
import json
import re
import sys
import time

LIFE = int(sys.argv[1])
#: The client's name stands in the Basic proof or in the form; the proof as a whole does as a name.
CLIENT = re.compile(rb"(?i)authorization: basic ([^\r]*)|client_id=([^&\r]*)")


class Issued:
    def __init__(self):
        self.last = {}
        self.forget()

    def forget(self):
        self.count = 0
        self.longest = 0.0
        self.since = time.monotonic()

    def add(self, client):
        now = time.monotonic()
        if client in self.last:
            self.longest = max(self.longest, now - self.last[client])
        self.last[client] = now
        self.count += 1

    def report(self):
        # A client that has not come back yet counts, too.
        waits = max((time.monotonic() - at for at in self.last.values()), default=0)
        seconds = time.monotonic() - self.since
        return {"clients": len(self.last), "issued": self.count, "seconds": seconds, "longest": max(self.longest, waits)}


issued = Issued()


class Authority(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
        self.buffer = b""

    def data_received(self, data):
        self.buffer += data
        while True:
            head, end, rest = self.buffer.partition(b"\r\n\r\n")
            found = re.search(rb"(?i)content-length: (\d+)", head)
            length = int(found.group(1)) if found else 0
            if not end or len(rest) < length:
                return
            self.buffer = rest[length:]
            self.transport.write(self.answer(head, rest[:length]))

    def answer(self, head, body):
        if head.startswith(b"POST "):
            found = CLIENT.search(head) or CLIENT.search(body)
            client = found.group(1) or found.group(2)
            issued.add(client)
            content = b'{"access_token":"token-%d","token_type":"Bearer","expires_in":%d}' % (issued.count, LIFE)
        else:
            if head.startswith(b"DELETE "):
                issued.forget()
            content = json.dumps(issued.report()).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content) + content


async def main():
    server = await asyncio.get_running_loop().create_server(Authority, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
