"""Opens a connection to each of many intercepted names, as fast as a few threads can: `handshakes.py PORT CA COUNT`."""

import concurrent.futures
import socket
import ssl
import sys


def main():
    port, ca, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    context = ssl.create_default_context(cafile=ca)

    def open_one(number):
        name = f"n{number}.test"
        with socket.create_connection(("127.0.0.1", port), timeout=60) as wire:
            wire.sendall(f"CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n".encode())
            answer = wire.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200 "), answer
            with context.wrap_socket(wire, server_hostname=name):
                pass

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        list(pool.map(open_one, range(count)))
    print("done")


main()
