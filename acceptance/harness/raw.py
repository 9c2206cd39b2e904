"""Requests byte by byte, for what no well-behaved client sends."""

import asyncio
import socket


class Answer:
    def __init__(self, data):
        self.data = data
        self.head, _, self.body = data.partition(b"\r\n\r\n")
        line = self.head.split(b"\r\n")[0].split(b" ")
        self.status = int(line[1]) if len(line) > 1 and line[0].startswith(b"HTTP/1.") else None


def exchange(port, request, seconds=15, end_of_writing=False):
    """Sends bytes and returns all that comes back until the gateway closes."""
    with socket.create_connection(("127.0.0.1", port), seconds) as connection:
        connection.sendall(request)
        if end_of_writing:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        while True:
            try:
                part = connection.recv(65536)
            except ConnectionResetError:
                break
            if not part:
                break
            received += part
    return Answer(received)


def all_at_once(port, requests):
    """Sends every request on a connection of its own, all connections open before the first byte is sent."""

    async def run():
        connections = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in requests))

        async def one(connection, request):
            reader, writer = connection
            writer.write(request)
            await writer.drain()
            data = await asyncio.wait_for(reader.read(-1), 60)
            writer.close()
            return Answer(data)

        return await asyncio.gather(*map(one, connections, requests))

    return asyncio.run(run())
