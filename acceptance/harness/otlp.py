"""An OpenTelemetry collector: takes OTLP in JSON over HTTP and keeps what it was sent."""

import http.server
import json
import threading

from .processes import wait_until


def attributes(owner):
    """`{name: value}` of a span, a resource or a data point."""
    values = {}
    for attribute in owner.get("attributes", []):
        [(kind, value)] = attribute["value"].items()
        assert kind in ("stringValue", "intValue", "boolValue", "doubleValue")
        assert attribute["key"] not in values, "each attribute stands once"
        values[attribute["key"]] = int(value) if kind == "intValue" else value
    return values


class Collector:
    """`status` is what it answers with. `never_ends`: an answer begins, and nothing follows."""

    def __init__(self):
        self.status = 200
        self.never_ends = False
        self.stopped = threading.Event()
        self.requests = []
        self.lock = threading.Lock()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with owner.lock:
                    status = owner.status
                    owner.requests.append((self.path, self.headers, body, status))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.flush()
                if owner.never_ends:
                    owner.stopped.wait()
                    return
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def stop(self):
        self.stopped.set()
        self.server.shutdown()
        self.server.server_close()

    def bodies(self, path):
        """Those that were taken."""
        with self.lock:
            taken = [request for request in self.requests if request[0] == path and request[3] == 200]
        for _, headers, _, _ in taken:
            assert headers["Content-Type"] == "application/json"
        return [json.loads(body) for _, _, body, _ in taken]

    def text(self):
        with self.lock:
            return b"".join(body for _, _, body, _ in self.requests).decode()

    def spans(self):
        return [
            span
            for body in self.bodies("/v1/traces")
            for resource in body["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]

    def resources(self):
        return [attributes(one["resource"]) for body in self.bodies("/v1/traces") for one in body["resourceSpans"]]

    def wait_for_spans(self, count):
        """In the order of their beginnings: each event loop exports its own, so that the order of arrival means nothing."""
        wait_until(lambda: len(self.spans()) >= count, 20, lambda: f"{count} spans, not {self.spans()}")
        spans = self.spans()
        assert len(spans) == count, spans
        return sorted(spans, key=lambda span: int(span["startTimeUnixNano"]))

    def metrics(self):
        """The last export, by name."""
        bodies = self.bodies("/v1/metrics")
        if not bodies:
            return {}
        [resource] = bodies[-1]["resourceMetrics"]
        [scope] = resource["scopeMetrics"]
        found = {metric["name"]: metric for metric in scope["metrics"]}
        assert len(found) == len(scope["metrics"]), "each metric stands once"
        return found
