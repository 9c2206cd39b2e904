"""How streams and connections end: resets, early answers, losses, drain and reload."""

import contextlib
import select
import signal
import subprocess
import threading
import time

from h2.errors import ErrorCodes
from harness import http2, processes
from harness.configs import plain_config
from harness.origin import response
from harness.script import wait


def test_a_reset_ends_the_upstream_request(served, make_script):
    begun, ended = threading.Event(), threading.Event()

    def steps(wire, number):
        wire.head()
        begun.set()
        wire.to_end()
        ended.set()

    with contextlib.closing(served(plain_config(make_script(steps))).client()) as client:
        stream = client.begin()
        wait(begun, 15, "the request")
        client.h2.reset_stream(stream, ErrorCodes.CANCEL)
        client.flush()
        wait(ended, 15, "the end of the upstream connection")
        assert client.ask(path="/nowhere").status == 404


def test_a_lost_response_is_reset(served, make_script):
    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
        wire.close()

    with contextlib.closing(served(plain_config(make_script(steps))).client()) as client:
        answer = client.finish(client.begin(method="POST"))
        assert (answer.status, answer.reset, answer.has_ended) == (200, ErrorCodes.INTERNAL_ERROR, False)
        assert bytes(answer.body) == b"only this"
        assert client.ask(path="/nowhere").status == 404


def test_an_early_answer_stops_the_upload(served, origin):
    """The response comes whole, then the client is told to send no more."""
    gateway = served()
    with contextlib.closing(gateway.client()) as client:
        stream = client.begin(path="/nowhere", method="POST", end=False)
        answer = client.finish(stream)
        assert answer.status == 404 and answer.has_ended
        client.until(lambda: answer.reset is not None)
        assert answer.reset == ErrorCodes.NO_ERROR
        assert client.ask().status == 200


def test_refused_uploads_leave_the_window_open(served):
    """What is thrown away of one request does not count against the others."""
    with contextlib.closing(served(streams_per_connection=2).client()) as client:
        client.until(lambda: client.settings)
        for _ in range(20):
            stream = client.begin(path="/nowhere", method="POST", end=False)
            client.send(client.frame(0, 0, stream, b"x" * 16_384) * 3)
            client.until(lambda stream=stream: client.responses[stream].has_ended)
        assert client.ask(method="POST", body=b"y" * 300_000).status == 200


def test_a_client_that_opens_no_window_is_left(served, make_origin):
    """Its stream alone, and not the connection: the rest of a response that is whole, and one that still comes."""
    # The rest of the first, behind the 65,535 bytes of the window, fits into what the gateway reads ahead. The second never does.
    sizes = {"/whole": 100_000, "/more": 8_000_000}
    origin = make_origin(lambda request: response(200, b"x" * sizes[request.target]))
    with contextlib.closing(served(plain_config(origin), response_timeout="2s").client()) as client:
        client.held |= {1, 3}
        whole, more = (client.begin(path=f"/api{path}") for path in sizes)
        client.finish(whole, more)
        found = {stream: (client.responses[stream].reset, len(client.responses[stream].body)) for stream in (whole, more)}
        assert found == {whole: (ErrorCodes.CANCEL, 65_535), more: (ErrorCodes.INTERNAL_ERROR, 65_535)}
        assert client.ask(path="/nowhere").status == 404


def test_a_request_without_its_content_is_left(served):
    with contextlib.closing(served(body_idle_timeout="300ms").client()) as client:
        answer = client.finish(client.begin(method="POST", end=False))
        assert answer.status == 408
        assert client.ask(path="/nowhere").status == 404


def test_a_listener_that_changes_ends_its_connections(start_gateway, origin):
    """As many requests as were on their way are served."""
    gateway = start_gateway(plain_config(origin))
    with contextlib.closing(http2.connect(gateway.port)) as client:
        assert client.ask().status == 200
        gateway.configure(plain_config(origin), [])
        text = gateway.file.read_text().replace(f"127.0.0.1:{gateway.port}", f"127.0.0.1:{processes.free_port()}")
        gateway.file.write_text(text)
        assert gateway.run("reload").returncode == 0
        client.until(lambda: client.goaways)
        assert set(client.until_end()) == {ErrorCodes.NO_ERROR}


def test_a_connection_that_authenticates_is_one_of_http1(start_gateway, origin, certificate_authority):
    certificate, key = certificate_authority.issue("http2", "DNS:localhost,IP:127.0.0.1")
    port = processes.free_port()
    tls = {"certificate": str(certificate), "private_key": {"file": str(key)}}
    config = {"routes": {"api": {"upstream": origin.url, "auth": "none", "connection_auth": True}}}
    start_gateway(config, listeners=[{"address": f"127.0.0.1:{port}", "tls": tls}])
    with contextlib.closing(http2.connect_over_tls(port, certificate_authority.certificate)) as client:
        assert client.finish(client.begin(scheme="https")).reset == ErrorCodes.HTTP_1_1_REQUIRED
    url = f"https://localhost:{port}/api/x"
    command = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "--cacert", certificate_authority.certificate, url]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30, env=processes.environment())
    assert done.stdout == "1.1 200", done


def test_a_connection_that_is_too_many(start_gateway, origin, certificate_authority):
    """It is told so in the version of HTTP that it speaks."""
    certificate, key = certificate_authority.issue("http2", "DNS:localhost,IP:127.0.0.1")
    port = processes.free_port()
    tls = {"certificate": str(certificate), "private_key": {"file": str(key)}}
    config = {**plain_config(origin), "limits": {"connections": 1}}
    start_gateway(config, listeners=[{"address": f"127.0.0.1:{port}", "tls": tls}])
    with contextlib.closing(http2.connect_over_tls(port, certificate_authority.certificate)) as first:
        assert first.ask(scheme="https").status == 200
        with contextlib.closing(http2.connect_over_tls(port, certificate_authority.certificate)) as second:
            assert second.until_end() == [ErrorCodes.ENHANCE_YOUR_CALM]
        command = ["curl", "-sS", "-i", "--http1.1", "--cacert", certificate_authority.certificate, f"https://localhost:{port}/api/x"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30, env=processes.environment())
        assert done.stdout.startswith("HTTP/1.1 503 ") and "Too many connections (limits.connections)." in done.stdout, done
        assert first.ask(scheme="https").status == 200


def test_an_old_connection_ends_in_good_order(served):
    """The client is told, and what it asked for until it has read that is served."""
    gateway = served(connection_max_age="1s")
    with contextlib.closing(gateway.client()) as client:
        assert client.ask().status == 200
        assert client.goaways == []
        time.sleep(1.1)
        assert client.ask().status == 200
        assert set(client.until_end()) == {ErrorCodes.NO_ERROR}
    with contextlib.closing(gateway.client()) as client:
        assert client.ask().status == 200


def test_drain(served, make_script):
    """A response under way is finished, and the client is told that no more are taken."""
    go_on = threading.Event()

    def steps(wire, number):
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
        go_on.wait(15)
        wire.send(b"cd")

    gateway = served(plain_config(make_script(steps)))
    with contextlib.closing(gateway.client()) as client:
        stream = client.begin()
        client.until(lambda: client.responses[stream].body)
        gateway.process.send_signal(signal.SIGTERM)
        client.until(lambda: client.goaways)
        go_on.set()
        assert bytes(client.finish(stream).body) == b"abcd"
        assert set(client.until_end()) == {ErrorCodes.NO_ERROR}
    assert gateway.process.wait(15) == 0


def test_requests_on_their_way_are_served_when_it_stops(served, origin):
    """No stream is open when it begins to stop: the client has not read yet that no more are taken."""
    gateway = served()
    with contextlib.closing(gateway.client()) as client:
        assert client.ask().status == 200
        gateway.process.send_signal(signal.SIGTERM)
        processes.wait_until(lambda: select.select([client.connection], [], [], 0)[0], 10, "it is told")
        streams = [client.begin() for _ in range(5)]
        client.finish(*streams)
        assert [client.responses[stream].status for stream in streams] == [200] * 5
        assert set(client.until_end()) == {ErrorCodes.NO_ERROR}
    assert gateway.process.wait(15) == 0


def test_reload(served, origin):
    """Requests after a reload go by what it says, on the connection that was open before."""
    gateway = served()
    with contextlib.closing(gateway.client()) as client:
        assert client.ask().status == 200
        config = plain_config(origin)
        config["routes"]["other"] = config["routes"].pop("api")
        gateway.configure(config)
        assert gateway.run("reload").returncode == 0
        assert client.ask().status == 404
        assert client.ask(path="/other/x").status == 200
