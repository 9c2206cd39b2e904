"""Connections to PostgreSQL as gateways that do nothing have them, through libpq."""

import ctypes
import functools


#: Of one gateway.
CONNECTIONS = 3


@functools.cache
def libpq():
    library = ctypes.CDLL("libpq.so.5")
    for name, result, arguments in [
        ("PQconnectdb", ctypes.c_void_p, [ctypes.c_char_p]),
        ("PQexec", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]),
        ("PQresultStatus", ctypes.c_int, [ctypes.c_void_p]),
        ("PQerrorMessage", ctypes.c_char_p, [ctypes.c_void_p]),
        ("PQclear", None, [ctypes.c_void_p]),
        ("PQfinish", None, [ctypes.c_void_p]),
    ]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Connection:
    def __init__(self, url):
        self.connection = libpq().PQconnectdb(url.encode())
        self.run("select 1")

    def run(self, statement):
        result = libpq().PQexec(self.connection, statement.encode())
        # PGRES_COMMAND_OK, PGRES_TUPLES_OK
        is_done = libpq().PQresultStatus(result) in (1, 2)
        libpq().PQclear(result)
        assert is_done, libpq().PQerrorMessage(self.connection).decode()

    def close(self):
        libpq().PQfinish(self.connection)


class Gateways:
    """So many: each has a connection for tokens, one that listens, and one for the audit log."""

    def __init__(self, url, count):
        self.connections = []
        for number in range(CONNECTIONS * count):
            self.connections.append(Connection(url))
            if number % CONNECTIONS == 1:
                self.connections[-1].run("listen authgateway_tokens")

    def close(self):
        for connection in self.connections:
            connection.close()
