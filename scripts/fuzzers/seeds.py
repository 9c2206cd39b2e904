"""Writes the inputs that a fuzzer begins with: `seeds.py NAME FOLDER`."""

import pathlib
import sys

SEEDS = {
    "RequestHeadFuzzer": [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST http://a/b?c HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close, x-y\r\nX_Y: z\r\n\r\nhello",
        b"PUT /x HTTP/1.1\r\nHost: [::1]:80\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
        b"OPTIONS * HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        b"\r\nGET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
    "ResponseHeadFuzzer": [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.0 304\r\nConnection: keep-alive\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer error="invalid_token"\r\n\r\n',
    ],
    "ChunkFuzzer": [
        b"5\r\nhello\r\n0\r\n\r\n",
        b'A;x="y z"\r\n0123456789\r\n000\r\nX: y\r\n\r\n',
        b"X: y\r\nContent-Length: 3\r\n\r\n",
    ],
}

name, folder = sys.argv[1:]
for number, seed in enumerate(SEEDS[name]):
    (pathlib.Path(folder) / f"seed-{number}").write_bytes(seed)
