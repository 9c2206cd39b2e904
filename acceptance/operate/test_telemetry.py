"""`telemetry: {otlp: URL}`: traces go on through the gateway, and spans and metrics reach a collector."""

import re
import time

import pytest
import requests
from harness import processes
from harness.configs import BEARER, CANARY
from harness.origin import response
from harness.otlp import Collector, attributes

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.stop()


def config(origin, collector, **telemetry):
    return {
        "telemetry": {"otlp": collector.url, "metrics_interval": "1s", **telemetry},
        "routes": {
            "api": {"upstream": origin.url, "auth": BEARER},
            "down": {"upstream": f"http://127.0.0.1:{processes.free_port()}", "auth": "none"},
        },
    }


def ask(gateway, path="/api/x?secret=CANARY-in-query", **fields):
    return requests.get(gateway.url + path, headers=fields, timeout=20)


def traceparent(value):
    found = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])", value)
    assert found, value
    return found.groups()


def test_a_trace_goes_on_through_the_gateway(start_gateway, origin, collector):
    gateway = start_gateway(config(origin, collector, service_name="gate"))
    fields = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=abc"}
    assert ask(gateway, **fields).status_code == 200
    trace, span, flags = traceparent(origin.last().value("traceparent"))
    assert (trace, flags) == (TRACE, "01") and span != PARENT
    assert origin.last().value("tracestate") == "vendor=abc"
    server, client = collector.wait_for_spans(2)
    assert {server["traceId"], client["traceId"]} == {TRACE}
    assert server["kind"] == 2 and server["name"] == "GET /api" and server["parentSpanId"] == PARENT
    assert client["kind"] == 3 and client["name"] == "GET" and client["parentSpanId"] == server["spanId"]
    assert client["spanId"] == span, "the upstream's parent is the span of the try"
    assert int(server["startTimeUnixNano"]) <= int(client["startTimeUnixNano"])
    assert int(client["endTimeUnixNano"]) <= int(server["endTimeUnixNano"])
    assert abs(int(server["endTimeUnixNano"]) / 1e9 - time.time()) < 30
    values = attributes(server)
    assert values.pop("gateway.request_id") and values.pop("gateway.credential.generation") >= 1
    assert values == {
        "http.request.method": "GET", "http.response.status_code": 200, "http.route": "/api", "url.scheme": "http",
        "gateway.route": "api", "gateway.credential": "routes.api",
    }
    assert attributes(client) == {
        "http.request.method": "GET", "http.response.status_code": 200, "url.scheme": "http",
        "server.address": "127.0.0.1", "server.port": origin.port,
    }
    [resource] = collector.resources()
    assert resource["service.name"] == "gate" and resource["service.version"] and resource["service.instance.id"]
    assert CANARY not in collector.text() and "in-query" not in collector.text() and "/api/x" not in collector.text()


@pytest.mark.parametrize("given", [None, "nonsense", f"00-{'0' * 32}-{PARENT}-01"])
def test_without_a_valid_parent_a_trace_begins(start_gateway, origin, collector, given):
    gateway = start_gateway(config(origin, collector))
    fields = {"tracestate": "vendor=abc"} | ({"traceparent": given} if given else {})
    assert ask(gateway, **fields).status_code == 200
    trace, span, flags = traceparent(origin.last().value("traceparent"))
    assert flags == "01" and origin.last().values("tracestate") == []
    server, client = collector.wait_for_spans(2)
    assert server["traceId"] == trace and "parentSpanId" not in server and client["spanId"] == span


def test_what_a_client_does_not_record_passes_unchanged(start_gateway, origin, collector):
    gateway = start_gateway(config(origin, collector))
    given = f"00-{TRACE}-{PARENT}-00"
    assert ask(gateway, traceparent=given, tracestate="a=b").status_code == 200
    assert origin.last().value("traceparent") == given and origin.last().value("tracestate") == "a=b"
    # Of two requests the later one has been exported.
    assert ask(gateway, traceparent=f"00-{TRACE}-{PARENT}-01").status_code == 200
    assert len(collector.wait_for_spans(2)) == 2


def test_a_share_of_none_still_tells_the_upstream(start_gateway, origin, collector):
    gateway = start_gateway(config(origin, collector, sampling="0%"))
    assert ask(gateway).status_code == 200
    assert traceparent(origin.last().value("traceparent"))[2] == "00"
    processes.wait_until(lambda: collector.metrics(), 20, "metrics are exported")
    assert collector.spans() == []


def test_who_is_not_let_in_decides_nothing(start_gateway, origin, collector):
    whole = config(origin, collector, sampling="0%")
    gateway = start_gateway({**whole, "access": {"clients": {"laptop": {"token": f"{CANARY}-of-the-laptop"}}}})
    given = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    assert [ask(gateway, **given).status_code for _ in range(3)] == [401] * 3
    assert ask(gateway, **given, Authorization=f"Bearer {CANARY}-of-the-laptop").status_code == 200
    assert len(collector.wait_for_spans(2)) == 2


def test_without_telemetry_the_fields_are_like_any_other(start_gateway, origin):
    gateway = start_gateway({"routes": {"api": {"upstream": origin.url, "auth": BEARER}}})
    assert ask(gateway, traceparent="what ever", tracestate="x").status_code == 200
    assert origin.last().value("traceparent") == "what ever" and origin.last().value("tracestate") == "x"
    assert ask(gateway).status_code == 200
    assert origin.last().values("traceparent") == []


def test_a_route_keeps_its_word(start_gateway, origin, collector):
    routes = {
        "set": {"upstream": origin.url, "auth": "none", "headers": {"set": {"traceparent": "mine"}}},
        "gone": {"upstream": origin.url, "auth": "none", "headers": {"remove": ["traceparent"]}},
    }
    gateway = start_gateway({**config(origin, collector), "routes": routes})
    assert ask(gateway, "/set/x", traceparent=f"00-{TRACE}-{PARENT}-01").status_code == 200
    assert origin.last().values("traceparent") == ["mine"]
    assert ask(gateway, "/gone/x").status_code == 200
    assert origin.last().values("traceparent") == []


def test_both_tries_of_a_request_have_a_span(start_gateway, authority, make_origin, collector):
    """The first token is rejected: the request goes again with another one."""
    first = []

    def answer(request):
        first.append(request.value("authorization"))
        rejected = request.value("authorization") == first[0]
        return response(401, b"", 'WWW-Authenticate: Bearer error="invalid_token"') if rejected else response(200)

    origin = make_origin(answer)
    gateway = start_gateway({
        "telemetry": {"otlp": collector.url},
        "credentials": {"me": authority.credential()},
        "routes": {"api": {"upstream": origin.url, "auth": "me"}},
    })
    assert ask(gateway, traceparent=f"00-{TRACE}-{PARENT}-01").status_code == 200
    spans = collector.wait_for_spans(5)
    server, early, late = [span for span in spans if span["traceId"] == TRACE]
    calls = [span for span in spans if span["traceId"] != TRACE]
    assert [attributes(call)["http.response.status_code"] for call in calls] == [200, 200]
    assert {attributes(call)["server.port"] for call in calls} == {authority.port}
    assert len({call["traceId"] for call in calls}) == 2 and not any("parentSpanId" in call for call in calls)
    parents = [traceparent(request.value("traceparent"))[1] for request in origin.requests]
    assert parents == [early["spanId"], late["spanId"]] and parents[0] != parents[1]
    assert {early["parentSpanId"], late["parentSpanId"]} == {server["spanId"]}
    assert attributes(early)["http.response.status_code"] == 401 and early["status"] == {"code": 2}
    assert attributes(late)["http.request.resend_count"] == 1 and "status" not in late
    assert int(early["endTimeUnixNano"]) <= int(late["startTimeUnixNano"])


def test_failures_are_named(start_gateway, make_origin, collector):
    origin = make_origin(lambda request: response(503 if "broken" in request.target else 200))
    gateway = start_gateway(config(origin, collector))
    given = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    assert [ask(gateway, path, **given).status_code for path in ("/api/broken", "/down/x", "/nowhere")] == [503, 502, 404]
    spans = collector.wait_for_spans(4)
    [broken, down, nowhere] = [span for span in spans if span["kind"] == 2]
    assert all(span["traceId"] == TRACE and span["parentSpanId"] == PARENT for span in (broken, down, nowhere))
    assert attributes(broken)["error.type"] == "503" and broken["status"] == {"code": 2}
    assert attributes(down)["error.type"] == "upstream-unreachable" and down["status"] == {"code": 2}
    assert attributes(nowhere)["error.type"] == "no-route" and "status" not in nowhere and nowhere["name"] == "GET"
    [sent] = [span for span in spans if span["kind"] == 3]
    assert sent["parentSpanId"] == broken["spanId"], "what was not sent has no span of its own"


def test_metrics_have_the_names_of_the_conventions(start_gateway, origin, collector):
    gateway = start_gateway(config(origin, collector))
    assert [ask(gateway).status_code for _ in range(3)] == [200] * 3
    assert ask(gateway, "/down/x").status_code == 502

    def counted():
        points = collector.metrics().get("http.server.request.duration", {}).get("histogram", {}).get("dataPoints", [])
        return sum(int(point["count"]) for point in points) == 4

    processes.wait_until(counted, 20, lambda: f"four requests are counted: {collector.metrics()}")
    metrics = collector.metrics()
    server = metrics["http.server.request.duration"]
    assert server["unit"] == "s" and server["histogram"]["aggregationTemporality"] == 2
    by_status = {attributes(point)["http.response.status_code"]: point for point in server["histogram"]["dataPoints"]}
    assert by_status[200]["count"] == "3" and len(by_status[200]["bucketCounts"]) == len(by_status[200]["explicitBounds"]) + 1
    assert attributes(by_status[200])["http.route"] == "/api" and attributes(by_status[502])["error.type"] == "upstream-unreachable"
    [client] = metrics["http.client.request.duration"]["histogram"]["dataPoints"]
    assert attributes(client)["server.address"] == "127.0.0.1" and client["count"] == "3"
    # What `/metrics` shows is there, too.
    requests_total = metrics["gateway_requests_total"]
    assert requests_total["sum"]["isMonotonic"] and requests_total["description"].endswith(".")
    assert {"route": "api", "status": "200"} in [attributes(point) for point in requests_total["sum"]["dataPoints"]]


def test_a_collector_that_is_away_holds_up_nothing_and_gets_it_later(start_gateway, origin, collector):
    collector.status = 503
    gateway = start_gateway(config(origin, collector, headers={"Authorization": f"Bearer {CANARY}"}))
    assert ask(gateway).status_code == 200
    processes.wait_until(lambda: collector.requests, 20, "an export was tried")
    assert {headers["Authorization"] for _, headers, _, _ in collector.requests} == {f"Bearer {CANARY}"}
    collector.status = 200
    assert len(collector.wait_for_spans(2)) == 2
    counted = requests.get(gateway.admin_url + "/metrics", timeout=10).text
    assert "gateway_telemetry_spans_dropped_total 0\n" in counted
    assert re.search(r"gateway_telemetry_exports_failed_total [1-9]", counted)
    assert "Telemetry not exported" in gateway.text()


def test_what_is_refused_for_good_is_dropped_and_counted(start_gateway, origin, collector):
    collector.status = 400
    gateway = start_gateway({**config(origin, collector), "telemetry": {"otlp": collector.url, "metrics": False}})
    assert ask(gateway).status_code == 200

    def counted():
        return "gateway_telemetry_spans_dropped_total 1\n" in requests.get(gateway.admin_url + "/metrics", timeout=10).text

    processes.wait_until(counted, 20, "the request is counted as dropped")


def test_a_stop_exports_what_is_left(start_gateway, origin, collector):
    gateway = start_gateway(config(origin, collector))
    assert [ask(gateway).status_code for _ in range(5)] == [200] * 5
    gateway.stop()
    assert len(collector.spans()) == 10
    # Nobody listens any more: a stop does not wait for it.
    gateway.start()
    assert ask(gateway).status_code == 200
    collector.stop()
    started = time.monotonic()
    gateway.stop()
    assert time.monotonic() - started < 15


def test_a_collector_whose_answer_never_ends_holds_up_no_export_and_no_stop(start_gateway, origin, collector):
    collector.never_ends = True
    gateway = start_gateway({**config(origin, collector), "telemetry": {"otlp": collector.url, "metrics": False}})
    assert ask(gateway).status_code == 200
    processes.wait_until(lambda: collector.requests, 20, "an export was tried")
    assert ask(gateway).status_code == 200
    processes.wait_until(lambda: len(collector.requests) > 1, 30, "the next export does not wait for it")
    started = time.monotonic()
    gateway.stop()
    assert time.monotonic() - started < 15


def test_headers_need_encryption(make_gateway, origin):
    headers = {"Authorization": CANARY}
    routes = {"api": {"upstream": origin.url, "auth": "none"}}

    def check(**telemetry):
        gateway = make_gateway({"telemetry": telemetry, "routes": routes})
        return gateway.run("check")

    assert check(otlp="http://collector.example:4318").returncode == 0
    assert check(otlp="https://collector.example:4318", headers=headers).returncode == 0
    refused = check(otlp="http://collector.example:4318", headers=headers)
    assert refused.returncode == 3 and "must be https" in refused.stderr
    for telemetry in ({}, {"otlp": "ftp://x"}, {"otlp": "http://127.0.0.1", "traces": False, "metrics": False}):
        assert check(**telemetry).returncode == 3, telemetry
