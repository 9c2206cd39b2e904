"""Reads and writes the framing of HTTP/1.1 (RFC 9112): heads, and chunked content."""

CRLF = b"\r\n"
END_OF_HEAD = b"\r\n\r\n"


class Reader:
    """Reads from `receive`, which returns the bytes that arrived, or b"" at the end of the connection.

    At the end of the connection each method returns what has arrived.
    """

    def __init__(self, receive):
        self.receive = receive
        self.buffer = b""

    def more(self):
        """Waits for more bytes. False at the end of the connection."""
        data = self.receive()
        self.buffer += data
        return bool(data)

    def take(self, has_enough):
        """All bytes, once `has_enough` is true for their number. Collects them in pieces: to join them each time would be slow."""
        pieces, size = [self.buffer], len(self.buffer)
        self.buffer = b""
        try:
            while not has_enough(size) and self.more():
                pieces.append(self.buffer)
                size += len(self.buffer)
                self.buffer = b""
        except BaseException:
            self.buffer = b"".join(pieces)
            raise
        return b"".join(pieces)

    def until(self, mark):
        """The bytes up to and including `mark`."""
        while mark not in self.buffer and self.more():
            pass
        before, found, self.buffer = self.buffer.partition(mark)
        return before + found

    def head(self):
        return self.until(END_OF_HEAD)

    def exactly(self, count):
        taken = self.take(lambda size: size >= count)
        self.buffer = taken[count:]
        return taken[:count]

    def to_end(self):
        return self.take(lambda size: False)

    def chunks(self):
        """Chunked content and its trailer section, which is None if the connection ended first (RFC 9112 section 7.1)."""
        parts = []
        while (line := self.until(CRLF)).endswith(CRLF):
            size = int(line.partition(b";")[0], 16)
            if size == 0:
                return b"".join(parts), self.trailers()
            parts.append(self.exactly(size))
            end = self.exactly(2)
            if not CRLF.startswith(end):
                raise ValueError(f"{end!r} follows a chunk")
        return b"".join(parts), None

    def trailers(self):
        """The field lines up to an empty line, or None if the connection ended first."""
        lines = []
        while (line := self.until(CRLF)) != CRLF:
            if not line.endswith(CRLF):
                return None
            lines.append(line)
        return b"".join(lines)


class StrictReader(Reader):
    """Raises ValueError if the connection ends within a message. Between messages, `until` returns b""."""

    def until(self, mark):
        found = super().until(mark)
        if found and not found.endswith(mark):
            raise ValueError("the connection ended within a message")
        return found

    def exactly(self, count):
        found = super().exactly(count)
        if len(found) < count:
            raise ValueError("the connection ended within a message")
        return found

    def chunks(self):
        content, trailers = super().chunks()
        if trailers is None:
            raise ValueError("the connection ended within a message")
        return content, trailers


def chunk(data, extension=b""):
    return b"%x%s\r\n%s\r\n" % (len(data), extension, data)


def chunked(chunks, trailers=b""):
    """The whole of chunked content. `chunks` are made with `chunk`."""
    return b"".join(chunks) + b"0\r\n" + trailers + CRLF
