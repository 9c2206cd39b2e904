"""An origin that takes a while for each answer and little else, as a process: `paced_origin.py MILLISECONDS`. Prints its port."""

import asyncio
import sys

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class Paced(asyncio.Protocol):
    delay = float(sys.argv[1]) / 1000

    def connection_made(self, transport):
        self.transport = transport
        self.buffer = b""

    def data_received(self, data):
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            _, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
            asyncio.get_running_loop().call_later(self.delay, self.transport.write, ANSWER)


async def main():
    server = await asyncio.get_running_loop().create_server(Paced, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
