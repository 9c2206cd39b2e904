"""A gRPC server whose methods take and give plain bytes, and that wants a token."""

import concurrent.futures
import threading

import grpc

SERVICE = "/test.Echo/"
MIB = 1 << 20


class GRPCOrigin:
    """`takes` says which value of `authorization` it takes; `seen` holds what each call had."""

    def __init__(self, takes, certificate=None, key=None, address="127.0.0.1:0"):
        self.takes = takes
        self.seen = []
        self.lock = threading.Lock()
        self.cancelled = threading.Event()
        self.deadlines = []
        pool = concurrent.futures.ThreadPoolExecutor(16)
        options = [("grpc.max_receive_message_length", 20 * MIB), ("grpc.so_reuseport", 0)]
        self.server = grpc.server(pool, options=options)
        self.server.add_generic_rpc_handlers((self,))
        if certificate:
            pair = (key.read_bytes(), certificate.read_bytes())
            port = self.server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        else:
            port = self.server.add_insecure_port(address)
        self.port = port
        self.server.start()

    def stop(self):
        self.server.stop(None).wait(10)

    def service(self, call):
        method = call.method.removeprefix(SERVICE)
        fields = dict(call.invocation_metadata)
        with self.lock:
            self.seen.append((method, fields))
        if not self.takes(fields.get("authorization")):
            return grpc.unary_unary_rpc_method_handler(self.refuse)
        return {
            "Unary": grpc.unary_unary_rpc_method_handler(self.unary),
            "Server": grpc.unary_stream_rpc_method_handler(self.stream),
            "Client": grpc.stream_unary_rpc_method_handler(self.collect),
            "Both": grpc.stream_stream_rpc_method_handler(self.echo),
            "Wait": grpc.unary_unary_rpc_method_handler(self.wait),
            "Fail": grpc.unary_unary_rpc_method_handler(self.fail),
        }.get(method)

    def refuse(self, _, context):
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "another token, please")

    def unary(self, request, context):
        context.send_initial_metadata((("first", "words"), ("bytes-bin", b"\0\xff")))
        context.set_trailing_metadata((("last", "words"),))
        return request

    def stream(self, request, context):
        for number in range(int(request)):
            yield b"%d" % number

    def collect(self, requests, context):
        return b"".join(requests)

    def echo(self, requests, context):
        yield from requests

    def wait(self, request, context):
        self.deadlines.append(context.time_remaining())
        context.add_callback(self.cancelled.set)
        self.cancelled.wait(30)
        return request

    def fail(self, request, context):
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not so: 100% \N{EM DASH}")
