"""Requests byte by byte, for what no well-behaved client sends."""

import asyncio
import json
import socket


class Answer:
    def __init__(self, data):
        self.data = data
        self.head, _, self.body = data.partition(b"\r\n\r\n")
        line = self.head.split(b"\r\n")[0].split(b" ")
        self.status = int(line[1]) if len(line) > 1 and line[0].startswith(b"HTTP/1.") else None

    def values(self, name):
        """Of the fields of that name, which is in small letters."""
        fields = [line.decode("latin-1").partition(":") for line in self.head.split(b"\r\n")[1:]]
        return [value.strip() for found, _, value in fields if found.lower() == name]

    def refuses(self, *statuses):
        """One answer and no other: a problem document of one of these statuses, which says that the connection ends."""
        if self.status not in statuses or self.data.count(b"HTTP/1.1 ") != 1:
            return False
        if self.values("content-type") != ["application/problem+json"] or self.values("connection") != ["close"]:
            return False
        return json.loads(self.body)["status"] == self.status


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
