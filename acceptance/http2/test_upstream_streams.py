"""Many requests on one connection: limits, resets, GOAWAY, flow control."""

import concurrent.futures
import contextlib
import itertools
import socket
import threading
import time

import h2.settings
import pytest
import requests
from h2.errors import ErrorCodes
from harness.configs import BEARER
from harness.processes import wait_until

STREAMS = h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS


@pytest.fixture
def start(start_gateway):
    def start(origin, **more):
        route = {"upstream": origin.url, "protocol": "http2", "auth": BEARER}
        return start_gateway({"workers": 1, "routes": {"api": route}, **more})

    return start


def get(gateway, path="x", **options):
    return requests.get(f"{gateway.url}/api/{path}", timeout=30, **options)


def many(gateway, count, ask=get):
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: ask(gateway), range(count)))


def test_100_requests_at_one_time_share_a_connection(make_http2_origin, start):
    origin = make_http2_origin()
    held = []

    def respond(stream):
        held.append(stream)
        if len(held) == 100:
            for waiting in held:
                waiting.answer(200, b"ok")

    origin.respond = respond
    gateway = start(origin)
    answers = many(gateway, 100)
    assert [answer.text for answer in answers] == ["ok"] * 100
    assert [connection.most_open for connection in origin.connections] == [100]


def test_no_more_streams_than_the_upstream_allows(make_http2_origin, start):
    origin = make_http2_origin(settings={STREAMS: 4})

    def respond(stream):
        time.sleep(0.005)
        stream.answer(200, b"ok")

    origin.respond = respond
    gateway = start(origin, limits={"connections_per_upstream": 2})
    assert [answer.text for answer in many(gateway, 60)] == ["ok"] * 60
    assert len(origin.connections) <= 2
    assert all(connection.most_open <= 4 for connection in origin.connections)


def test_the_upstream_lowers_its_limit(make_http2_origin, start):
    origin = make_http2_origin(settings={STREAMS: 50})
    gateway = start(origin, limits={"connections_per_upstream": 1})
    assert get(gateway).text == "ok"
    [connection] = origin.connections
    with connection.lock:
        connection.h2.update_settings({STREAMS: 1})
    connection.flush()
    time.sleep(0.2)
    connection.most_open = 0
    assert [answer.text for answer in many(gateway, 20)] == ["ok"] * 20
    assert connection.most_open == 1 and origin.connections == [connection]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_refused_stream_is_sent_again_whatever_the_method(make_http2_origin, start, method):
    origin = make_http2_origin()
    count = itertools.count(1)

    def respond(stream):
        if next(count) % 2:
            stream.reset(ErrorCodes.REFUSED_STREAM)
        else:
            stream.answer(200, bytes(stream.body) or b"ok")

    origin.respond = respond
    gateway = start(origin)
    for _ in range(5):
        answer = requests.request(method, gateway.url + "/api/x", data=b"hello" * (method == "POST"), timeout=20)
        assert (answer.status_code, answer.text) == (200, "hello" if method == "POST" else "ok")
    assert len(origin.connections) == 1


def test_an_upstream_that_refuses_everything_is_asked_four_times(make_http2_origin, start):
    origin = make_http2_origin()
    origin.respond = lambda stream: stream.reset(ErrorCodes.REFUSED_STREAM)
    answer = get(start(origin))
    assert answer.status_code == 503 and answer.json()["code"] == "upstream-busy"
    assert len(origin.requests) == 4


UNREAD = "closed the connection (GOAWAY, {}) before it read the request{}. The request can be sent again."


@pytest.mark.parametrize(
    ("code", "text", "last", "said"),
    [
        (0, b"", 0, UNREAD.format("NO_ERROR", "; it may be restarting")),
        (11, b"too_many_pings", 0, UNREAD.format('ENHANCE_YOUR_CALM: "too_many_pings"', "")),
        (11, b"too_many_pings", 1, 'closed the connection early (GOAWAY, ENHANCE_YOUR_CALM: "too_many_pings").'),
    ],
)
def test_the_code_and_the_words_of_goaway_are_told(make_http2_origin, start, code, text, last, said):
    origin = make_http2_origin()

    def respond(stream):
        stream.connection.raw(frame(7, 0, 0, last.to_bytes(4, "big") + code.to_bytes(4, "big") + text))
        threading.Timer(0.2, stream.connection.stop).start()

    origin.respond = respond
    # Not sent again by itself.
    answer = requests.post(start(origin).url + "/api/x", data=b"x", timeout=20)
    assert answer.status_code == 502 and answer.json()["code"] == "upstream-unreachable", answer.text
    assert answer.json()["title"] == "The connection to the upstream was lost"
    assert answer.json()["detail"].endswith(said), answer.text
    assert "error=connection_terminated" in answer.headers["Proxy-Status"]


def test_a_reset_ends_one_request_alone(make_http2_origin, start):
    origin = make_http2_origin()
    held = []

    def respond(stream):
        if stream.path == "/reset":
            stream.reset(ErrorCodes.INTERNAL_ERROR)
            held.pop().answer(200, b"ok")
        else:
            held.append(stream)

    origin.respond = respond
    gateway = start(origin)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        other = pool.submit(get, gateway)
        wait_until(lambda: held, 20, "the upstream sees it")
        answer = requests.post(gateway.url + "/api/reset", timeout=20)
        assert answer.status_code == 502 and answer.json()["code"] == "upstream-unreachable"
        assert "ended the stream of the request early (RST_STREAM, INTERNAL_ERROR)" in answer.json()["detail"]
        assert other.result().text == "ok"
    assert len(origin.connections) == 1


def test_an_upstream_that_wants_http1_for_a_request_says_so(make_http2_origin, start):
    origin = make_http2_origin()
    origin.respond = lambda stream: stream.reset(ErrorCodes.HTTP_1_1_REQUIRED)
    answer = get(start(origin))
    assert answer.status_code == 502 and answer.json()["code"] == "upstream-invalid-response"
    assert "Set protocol of the route to http1." in answer.json()["detail"]


def test_a_reset_in_the_content_cuts_the_response(make_http2_origin, start):
    origin = make_http2_origin()

    def respond(stream):
        stream.head(200)
        stream.send(b"half")
        stream.connection.flush()
        stream.reset(ErrorCodes.INTERNAL_ERROR)

    origin.respond = respond
    gateway = start(origin)
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        get(gateway)


def test_a_client_that_leaves_cancels_its_stream(make_http2_origin, start):
    origin = make_http2_origin()
    origin.respond = lambda stream: None
    gateway = start(origin)
    with socket.create_connection(("127.0.0.1", gateway.port), 15) as client:
        client.sendall(f"GET /api/x HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n\r\n".encode())
        wait_until(lambda: origin.requests, 20, "the upstream sees it")
    wait_until(lambda: origin.resets, 20, "the upstream sees it")
    assert origin.resets == [(1, ErrorCodes.CANCEL)]
    origin.respond = lambda stream: stream.answer(200, b"ok")
    assert get(gateway).text == "ok" and len(origin.connections) == 1


def test_an_answer_before_the_end_of_the_request(make_http2_origin, start):
    origin = make_http2_origin()
    origin.began = lambda stream: stream.answer(413, b"too long")
    gateway = start(origin)
    with socket.create_connection(("127.0.0.1", gateway.port), 15) as client:
        head = f"POST /api/x HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nContent-Length: 1000000\r\n\r\n"
        client.sendall(head.encode() + b"x" * 1000)
        assert client.recv(65536).startswith(b"HTTP/1.1 413 ")
    wait_until(lambda: origin.resets, 20, "the upstream sees it")
    origin.began = lambda stream: None
    assert get(gateway).text == "ok" and len(origin.connections) == 1


def test_goaway_in_the_middle_of_a_load_fails_no_request(make_http2_origin, start):
    origin = make_http2_origin()

    def respond(stream):
        streams = stream.connection.streams
        earlier = [other for number, other in streams.items() if number < stream.number]
        if len(streams) >= 25 and all(other.is_complete for other in earlier):
            # Those that come behind it are not looked at.
            stream.connection.h2.close_connection(last_stream_id=stream.number)
            stream.connection.raw(stream.connection.h2.data_to_send())
            answer = stream.connection.h2.encoder.encode([(":status", "200"), ("content-length", "2")])
            stream.connection.raw(frame(1, 0x4, stream.number, answer) + frame(0, 0x1, stream.number, b"ok"))
            threading.Timer(0.2, stream.connection.stop).start()
        else:
            stream.answer(200, b"ok")

    origin.respond = respond
    gateway = start(origin)
    stop = time.monotonic() + 3

    def load(number):
        failed = []
        with requests.Session() as session:
            while time.monotonic() < stop:
                method = "POST" if number % 2 else "GET"
                answer = session.request(method, gateway.url + "/api/x", data=b"x" * (number % 2), timeout=20)
                if answer.status_code != 200:
                    failed.append((answer.status_code, answer.text))
        return failed

    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        assert sum(pool.map(load, range(10)), []) == []
    assert len(origin.connections) > 3


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def test_a_connection_that_was_closed_while_it_rested_is_replaced(make_http2_origin, start):
    origin = make_http2_origin()
    gateway = start(origin)
    for _ in range(3):
        assert get(gateway).text == "ok"
        origin.connections[-1].stop()
        time.sleep(0.1)
    assert len(origin.connections) == 3


def test_a_slow_client_stops_its_stream_and_no_other(make_http2_origin, start):
    origin = make_http2_origin()
    size = 20 << 20
    origin.respond = lambda stream: stream.answer(200, b"x" * size if stream.path == "/big" else b"ok")
    gateway = start(origin)
    with socket.create_connection(("127.0.0.1", gateway.port), 60) as client:
        client.sendall(
            f"GET /api/big HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nConnection: close\r\n\r\n".encode()
        )
        wait_until(lambda: origin.requests, 20, "the upstream sees it")
        time.sleep(0.5)
        [big] = origin.requests
        assert len(big.waiting) > size // 2, "the upstream was not told to send all of it"
        for _ in range(20):
            assert get(gateway).text == "ok"
        assert len(origin.connections) == 1
        received = 0
        while part := client.recv(1 << 20):
            received += len(part)
    assert received > size


def test_an_upstream_that_takes_no_content_stops_its_stream_and_no_other(make_http2_origin, start):
    origin = make_http2_origin()
    origin.takes = False
    gateway = start(origin)
    with socket.create_connection(("127.0.0.1", gateway.port), 15) as client:
        head = f"POST /api/slow HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nContent-Length: {50 << 20}\r\n\r\n"
        client.sendall(head.encode())
        client.settimeout(1)
        sent = 0
        with pytest.raises(TimeoutError):
            while True:
                sent += client.send(b"x" * 65536)
        assert sent < 40 << 20, "the client was stopped"
        [slow] = origin.requests
        assert len(slow.body) <= 65_535
        assert get(gateway).text == "ok"


def test_the_window_of_the_connection_bounds_all_streams(make_http2_origin, start):
    """The streams' own windows have plenty of room. The origin's library refuses a byte past the connection's window."""
    origin = make_http2_origin(settings={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
    origin.takes = False
    gateway = start(origin)
    with contextlib.ExitStack() as clients:
        for _ in range(2):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 15))
            head = f"POST /api/x HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nContent-Length: 50000\r\n\r\n"
            client.sendall(head.encode() + bytes(50_000))
        wait_until(lambda: sum(len(stream.body) for stream in origin.requests) == 65_535, 20, "the window is full")
        [connection] = origin.connections
        with connection.lock:
            connection.h2.increment_flow_control_window(1 << 20)
            connection.flush()
        wait_until(lambda: all(stream.is_complete for stream in origin.requests), 20, "both uploads end")
    assert [len(stream.body) for stream in origin.requests] == [50_000, 50_000]


def test_a_silent_connection_is_asked_whether_it_lives(make_http2_origin, start):
    origin = make_http2_origin()
    gateway = start(origin, limits={"response_timeout": "300ms", "connect_timeout": "500ms"})
    assert get(gateway).text == "ok"
    [connection] = origin.connections
    connection.lock.acquire()
    try:
        assert get(gateway).status_code == 504
        wait_until(lambda: get(gateway).status_code == 200, 20, "the upstream sees it")
    finally:
        connection.lock.release()
    assert len(origin.connections) == 2


def test_a_client_that_leaves_a_busy_upstream_ends_no_other_request(make_http2_origin, start):
    origin = make_http2_origin()
    gateway = start(origin, limits={"connect_timeout": "300ms"})
    assert get(gateway).text == "ok"
    [connection] = origin.connections
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with connection.lock:
            other = pool.submit(requests.post, gateway.url + "/api/x", data=b"hello", timeout=20)
            time.sleep(0.3)
            with pytest.raises(requests.Timeout):
                requests.get(gateway.url + "/api/x", timeout=0.2)
            # Longer than the gateway waits for the answer to its PING.
            time.sleep(1)
            assert get(gateway).text == "ok" and len(origin.connections) == 2
        answer = other.result()
    assert (answer.status_code, answer.text) == (200, "ok")


# Upstreams that ask for too much


def test_settings_and_pings_without_end_close_the_connection(make_http2_origin, start):
    origin = make_http2_origin()
    gateway = start(origin)
    for flood in (frame(6, 0, 0, bytes(8)), frame(4, 0, 0, b"")):
        assert get(gateway).text == "ok"
        connection = origin.connections[-1]
        for _ in range(50):
            connection.raw(flood * 400)
        wait_until(connection.ended.is_set, 20, "the connection ends")
    assert get(gateway).text == "ok"


@pytest.mark.parametrize(
    "flood",
    [frame(3, 0, 1, b"\0\0\0\x08"), frame(8, 0, 1, b"\0\0\0\1"), frame(8, 0, 0, b"\0\0\0\1"), frame(0x42, 0, 0, b"")],
    ids=["reset", "window", "window of the connection", "unknown"],
)
def test_frames_without_end_that_answer_nothing_close_the_connection(make_http2_origin, start, flood):
    origin = make_http2_origin()
    origin.respond = lambda stream: stream.reset(ErrorCodes.CANCEL) if stream.path == "/reset" else stream.answer(200, b"ok")
    gateway = start(origin)
    assert requests.get(gateway.url + "/api/reset", timeout=20).status_code == 502
    [connection] = origin.connections
    connection.raw(flood * 5000)
    assert connection.ended.wait(10)
    assert requests.get(gateway.url + "/api/x", timeout=20).text == "ok" and len(origin.connections) == 2


def test_a_header_list_beyond_the_limit_is_no_response(make_http2_origin, start):
    origin = make_http2_origin()

    def respond(stream):
        fields = [("x-own", "x" * 1000)] * 100 if stream.path == "/big" else []
        stream.answer(200, b"ok", fields)

    origin.respond = respond
    gateway = start(origin)
    answer = get(gateway, "big")
    assert answer.status_code == 502 and answer.json()["code"] == "upstream-invalid-response"
    assert get(gateway).text == "ok"


@pytest.mark.parametrize("junk", [b"\0\0\1\0\0\0\0\0\0x", b"\xff" * 100, b"HTTP/1.1 200 OK\r\n\r\n"])
def test_frames_that_are_none_end_the_connection(make_http2_origin, start, junk):
    origin = make_http2_origin()

    def respond(stream):
        if stream.path == "/junk":
            stream.connection.raw(junk)
        else:
            stream.answer(200, b"ok")

    origin.respond = respond
    gateway = start(origin)
    answer = requests.post(gateway.url + "/api/junk", timeout=20)
    assert answer.status_code == 502
    assert get(gateway).text == "ok"
