"""The names of hops and of hosts: `Via` and loops, addresses that are never dialled, lookups that are slow or wrong."""

import contextlib
import json
import pathlib
import re
import select
import socket
import time

import pytest
from harness.configs import BEARER
from harness import raw
from harness.names import add_address
from harness.origin import ok, response
from harness.processes import free_port, wait_until
from harness.script import OK, answering, connect, get



def route(upstream):
    return {"upstream": upstream, "auth": BEARER, "allow_plaintext": True}


def config(upstream):
    """One route that takes everything, so that a request that comes back takes it again."""
    return {"routes": {"all": {**route(upstream), "match": {"path": "/"}}}}


def ask(gateway, *fields, path="/api/x", version="1.1"):
    return raw.exchange(gateway.port, get(gateway, "Connection: close", *fields, path=path, version=version))


def is_problem(answer, status, kind, error=""):
    assert answer.status == status and b"Content-Type: application/problem+json" in answer.head, answer.data
    assert json.loads(answer.body)["type"].endswith(":" + kind), answer.data
    assert f"error={error}".encode() in answer.head, answer.head
    return True


# Via


def hops(answer):
    """What the head says of the way, as one list."""
    return b", ".join(re.findall(rb"(?im)^via: *(.*?)\r?$", answer.head)).decode().split(", ")


def name_of(gateway):
    """What it calls itself; new for each start."""
    return hops(ask(gateway))[-1].split(" ")[1]


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_the_upstream_is_told_how_the_request_came(origin, start_gateway, version):
    gateway = start_gateway(config(origin.url))
    name = name_of(gateway)
    assert re.fullmatch("authgateway-[0-9a-f]+", name)
    assert ask(gateway, version=version).status == 200
    assert origin.last().value("via") == f"{version} {name}"


@pytest.mark.parametrize("protocol", ["http1", "http2"])
def test_a_route_can_send_another_field_in_the_place_of_via(origin, make_http2_origin, start_gateway, protocol):
    """nginx, for one, compresses no response to a request with `Via`."""
    upstream = origin if protocol == "http1" else make_http2_origin()
    gateway = start_gateway({"routes": {"all": {**config(upstream.url)["routes"]["all"], "protocol": protocol, "via": False}}})
    name = name_of(gateway)
    assert ask(gateway).status == 200
    request = upstream.last() if protocol == "http1" else upstream.requests[-1]
    assert request.values("via") == [] and request.values("gateway-loop") == [f"1.1 {name}"]
    is_problem(ask(gateway, f"Gateway-Loop: 1.1 {name}"), 502, "loop", "proxy_loop_detected")
    assert ask(gateway, "Gateway-Loop: 1.1 another").status == 200


@pytest.mark.parametrize("upstream", ["http://127.0.0.1:{port}", "http://localhost:{port}", "http://own.localhost:1"])
def test_via_stays_where_the_upstream_may_be_the_gateway(make_gateway, upstream):
    gateway = make_gateway({"routes": {}})
    routes = {"own": {"upstream": upstream.format(port=gateway.port), "auth": "none", "via": False}}
    gateway.configure({"routes": routes})
    result = gateway.run("check")
    assert result.returncode == 3 and "routes.own.via: cannot be false: this upstream may be the gateway itself" in result.stderr, result


def test_via_stays_where_a_wildcard_covers_the_upstream(make_gateway):
    routes = {
        "own": {"upstream": "https://a.b.example.test", "auth": "none", "via": False},
        "all": {"upstream": "https://up.test", "auth": "none", "match": {"hosts": ["*.example.test"]}},
    }
    result = make_gateway({"routes": routes}).run("check")
    assert result.returncode == 3 and "routes.own.via: cannot be false" in result.stderr, result


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_the_client_is_told_how_the_answer_came(make_script, start_gateway, version):
    origin = make_script(answering(OK.replace(b"HTTP/1.1", b"HTTP/" + version.encode())))
    [hop] = hops(ask(start_gateway(config(origin.url))))
    assert re.fullmatch(version + " authgateway-[0-9a-f]+", hop)


@pytest.mark.parametrize(
    "fields",
    [
        ["Via: 1.1 example"],
        ["Via: 1.0 fred, 1.1 p.example.net:8080"],
        ["Via: 1.0 fred", "X: y", "via: 1.1 authgateway-0 (nobody)"],
    ],
)
def test_hops_before_us_are_passed_on_before_our_own(origin, start_gateway, fields):
    gateway = start_gateway(config(origin.url))
    ours = "1.1 " + name_of(gateway)
    assert ask(gateway, *fields).status == 200
    theirs = [field.split(": ")[1] for field in fields if field.lower().startswith("via")]
    assert ", ".join(origin.last().values("via")) == ", ".join([*theirs, ours])


# Loops


def test_a_route_to_the_gateway_itself_ends_after_one_turn(make_gateway):
    gateway = make_gateway({"routes": {}})
    gateway.configure(config(gateway.url))
    answer = ask(gateway.start())
    assert is_problem(answer, 502, "loop", "proxy_loop_detected") and len(hops(answer)) == 1


def test_a_relay_that_leads_back_makes_one_turn(make_script, start_gateway):
    def relay(wire, number):
        with connect(gateway.port) as back:
            # It is for us only under our own address.
            back.send(wire.head().replace(b"%d" % turns.port, b"%d" % gateway.port))
            while back.more():
                wire.send(back.exactly(len(back.buffer)))

    turns = make_script(relay)
    gateway = start_gateway(config(turns.url))
    assert is_problem(ask(gateway), 502, "loop", "proxy_loop_detected")
    assert [wire.received.count(b"GET /") for wire in turns.wires] == [1]


def test_two_gateways_that_point_at_each_other_make_one_turn(make_gateway):
    one, other = (make_gateway({"routes": {}}) for _ in range(2))
    one.configure(config(other.url))
    other.configure(config(one.url))
    one.start(), other.start()
    answer = ask(one)
    # Each has passed the answer on once.
    assert is_problem(answer, 502, "loop") and len(set(hops(answer))) == len(hops(answer)) == 2


def test_another_gateway_on_the_way_is_no_loop(origin, start_gateway):
    behind = start_gateway(config(origin.url))
    front = start_gateway(config(behind.url))
    assert ask(front).status == 200
    names = [hop.split(" ")[1] for hop in ", ".join(origin.last().values("via")).split(", ")]
    assert names == [name_of(front), name_of(behind)] and names[0] != names[1]


def test_our_own_name_is_refused_wherever_it_stands(origin, start_gateway):
    gateway = start_gateway(config(origin.url))
    name = name_of(gateway)
    origin.forget()
    for value in (f"1.1 {name}", f"1.0 fred, 1.1 {name}, 1.1 ann", f"1.1 fred\r\nvIA: 1.0 {name}"):
        assert is_problem(ask(gateway, f"Via: {value}"), 502, "loop")
    assert origin.count() == 0


def test_a_longer_name_is_another_one(origin, start_gateway):
    gateway = start_gateway(config(origin.url))
    name = name_of(gateway)
    for other in (f"{name}0", f"my-{name}", f"{name}.example"):
        assert ask(gateway, f"Via: 1.1 {other}").status == 200


# Names


@pytest.fixture
def start(names, make_gateway):
    """Starts a gateway that asks our name server."""

    def start(routes, environment=None, workers=1, **limits):
        whole = {"workers": workers, "routes": {name: route(url) for name, url in routes.items()}, "limits": limits}
        gateway = make_gateway(whole, environment=environment)
        gateway.wrapper = names.wrapper()
        return gateway.start()

    return start


def saying(text):
    """Each request needs a connection of its own."""
    return lambda request: response(200, text, "Connection: close")


leaving = saying(b"ok")


# Addresses that are not dialled

PROHIBITED = [
    "169.254.169.254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "fe80::1",
    "febf::1",
    "0.0.0.0",
    "::",
    "::ffff:0.0.0.0",
    "100.100.100.200",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "::ffff:0:169.254.169.254",
]


@pytest.fixture
def everywhere(network):
    """Listens on every address of the private network."""
    for address in PROHIBITED:
        if address not in ("::", "0.0.0.0", "::ffff:0.0.0.0", "::ffff:169.254.169.254"):
            add_address(address)
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        yield listener


def was_dialled(listener):
    """The connection is in its queue before the gateway knows of it; another address would be tried after 250 ms."""
    return bool(select.select([listener], [], [], 0.3)[0])


@pytest.mark.parametrize("address", PROHIBITED)
def test_a_name_that_leads_to_a_prohibited_address_is_not_dialled(names, everywhere, start, address):
    names.addresses["trap.test"] = [address]
    gateway = start({"trap": f"http://trap.test:{everywhere.getsockname()[1]}"})
    answer = ask(gateway, path="/trap/x")
    assert is_problem(answer, 502, "destination-prohibited", "destination_ip_prohibited")
    assert not was_dialled(everywhere)


def test_an_address_that_the_configuration_names_is_dialled(network, make_origin, start):
    add_address("169.254.169.254")
    origin = make_origin(ok, 0, "169.254.169.254")
    gateway = start({"named": f"http://169.254.169.254:{origin.port}"})
    assert ask(gateway, path="/named/x").status == 200 and origin.count() == 1


@pytest.mark.parametrize("allowed", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("prohibited", ["169.254.169.254", "64:ff9b::a9fe:a9fe"])
def test_of_several_addresses_only_those_allowed_are_dialled(names, make_origin, start, allowed, prohibited):
    add_address(prohibited)
    origin = make_origin(leaving, 0, allowed)
    names.addresses["mixed.test"] = [prohibited, allowed]
    gateway = start({"mixed": f"http://mixed.test:{origin.port}"})
    family = socket.AF_INET6 if ":" in prohibited else socket.AF_INET
    with socket.create_server((prohibited, origin.port), family=family) as trap:
        for _ in range(3):
            assert ask(gateway, path="/mixed/x").status == 200
        assert not was_dialled(trap)
    # Nor when nobody is at the allowed one.
    origin.stop()
    with socket.create_server((prohibited, origin.port), family=family) as trap:
        assert ask(gateway, path="/mixed/x").status == 502
        assert not was_dialled(trap)


# How long an address is known


@pytest.fixture
def moving(names, make_origin, clock, start):
    """An upstream that moves from the first address to the second, and a gateway before it that knows the first."""
    old = make_origin(saying(b"old"), 0, "127.0.0.1")
    make_origin(saying(b"new"), old.port, "127.0.0.2")
    names.addresses["moving.test"] = ["127.0.0.1"]
    gateway = start({"api": f"http://moving.test:{old.port}"}, clock.all_time)
    yield gateway, old
    gateway.kill()


def test_an_address_is_known_for_thirty_seconds(names, clock, moving):
    gateway, _ = moving
    assert ask(gateway).body == b"old"
    names.addresses["moving.test"] = ["127.0.0.2"]
    clock.set("+25")
    assert [ask(gateway).body for _ in range(3)] == [b"old"] * 3
    assert names.asked == ["moving.test"]
    clock.set("+31")
    assert [ask(gateway).body for _ in range(3)] == [b"new"] * 3
    assert names.asked == ["moving.test"] * 2


def test_an_address_that_fails_is_asked_for_anew_at_once(names, moving):
    gateway, old = moving
    assert ask(gateway).body == b"old"
    names.addresses["moving.test"] = ["127.0.0.2"]
    old.stop()
    assert is_problem(ask(gateway), 502, "upstream-unreachable")
    assert ask(gateway).body == b"new"
    assert names.asked == ["moving.test"] * 2


def test_what_was_known_too_long_ago_is_not_something_to_dial(names, make_origin, clock, start):
    """Neither kind of address stands in for the other when both have to be asked for again."""
    origin = make_origin(leaving)
    names.addresses["both.test"] = ["127.0.0.1", "::1"]
    gateway = start({"api": f"http://both.test:{origin.port}"}, clock.all_time, connect_timeout="3s")
    assert ask(gateway).status == 200
    clock.set("+31")
    names.silent = {"both.test"}
    with connect(gateway.port) as first:
        first.send(get(gateway, "Connection: close"))
        time.sleep(1.5)
        second = ask(gateway)
    gateway.kill()
    assert is_problem(second, 504, "upstream-timeout", "dns_timeout")


# A gateway for which hardly any time passes: what it answers all the same it has waited for no time to answer


class Standing:
    """A gateway whose time passes a thousand times slower than the test's, but for what the test adds to it."""

    def __init__(self, clock, start):
        self.clock = clock
        self.begin = start
        self.gateway = None

    def start(self, routes, **options):
        self.clock.set("+0", pace=0.001)
        self.gateway = self.begin(routes, self.clock.all_time, **options)
        return self.gateway

    def at(self, seconds, *waiting):
        """So much later than the start. Returns once all of these clients are answered; with none, once it can have been seen."""
        self.clock.set(f"+{seconds}", pace=0.001)

        def are_answered():
            # A timer that was set before does not hear of it; an event loop that has something to do looks at the time.
            for _ in range(20):
                assert ask(self.gateway, path="/nowhere").status == 404
            return not any(client.is_quiet(0) for client in waiting)

        wait_until(are_answered, 10, "all are answered")


@pytest.fixture
def time_stands(names, clock, start):
    # The resolver has its own patience, in real time.
    names.options = "options timeout:30\n"
    standing = Standing(clock, start)
    yield standing
    standing.gateway.kill()


# Happy eyeballs (RFC 8305)


@contextlib.contextmanager
def swallowing(address, port=0):
    """Connection attempts are neither accepted nor refused: the one place in the queue is taken."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, port), family=family, backlog=0) as listener:
        with socket.create_connection(listener.getsockname()[:2]):
            yield listener.getsockname()[1]


def attempts(port):
    """How many connections to this port of `::1` wait for an answer to their SYN."""
    sent = "02"
    lines = pathlib.Path("/proc/net/tcp6").read_text(encoding="ascii").splitlines()[1:]
    columns = [line.split() for line in lines]
    return sum(state == sent and int(there.partition(":")[2], 16) == port for _, _, there, state, *_ in columns)


@pytest.mark.timing
def test_an_address_that_swallows_connections_delays_a_request_for_a_moment_only(names, make_origin, time_stands):
    """The next one is tried 250 ms after it."""
    origin = make_origin(leaving)
    names.addresses["both.test"] = ["::1", "127.0.0.1"]
    gateway = time_stands.start({"api": f"http://both.test:{origin.port}"}, connect_timeout="5s")
    with swallowing("::1", origin.port), connect(gateway.port) as client:
        client.send(get(gateway, "Connection: close"))
        wait_until(lambda: attempts(origin.port) == 1, 5, "the first address is dialled")
        time_stands.at(0.2)
        assert client.is_quiet(0.2) and origin.streams == []
        time_stands.at(0.3, client)
        assert raw.Answer(client.to_end()).status == 200


def test_an_address_that_refuses_connections_delays_nothing(names, make_origin, time_stands):
    """Nor for the 250 ms that an address gets before the next one is tried."""
    origin = make_origin(leaving)
    names.addresses["both.test"] = ["::1", "127.0.0.1"]
    gateway = time_stands.start({"api": f"http://both.test:{origin.port}"})
    assert [ask(gateway).status for _ in range(5)] == [200] * 5
    assert len(origin.streams) == 5, "each has dialled"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_one_kind_of_address_is_enough(names, make_origin, time_stands, address):
    """Nothing is waited for where the name server has said that there is none of the other kind."""
    origin = make_origin(leaving, 0, address)
    names.addresses["one.test"] = [address]
    gateway = time_stands.start({"api": f"http://one.test:{origin.port}"})
    assert [ask(gateway).status for _ in range(3)] == [200] * 3
    assert origin.last().value("host") == f"one.test:{origin.port}"


def test_addresses_that_all_swallow_connections_end_with_connect_timeout(names, time_stands):
    names.addresses["both.test"] = ["::1", "127.0.0.1"]
    with swallowing("127.0.0.1") as port, swallowing("::1", port), contextlib.ExitStack() as stack:
        gateway = time_stands.start({"api": f"http://both.test:{port}"}, connect_timeout="1s")
        clients = [stack.enter_context(connect(gateway.port)) for _ in range(4)]
        for client in clients:
            client.send(get(gateway, "Connection: close"))
        # Their time to connect begins here. With less, it would not be over below.
        wait_until(lambda: attempts(port) == 4, 5, "the first address is dialled for each")
        time_stands.at(0.9)
        assert all(client.is_quiet(0.1) for client in clients)
        time_stands.at(1.1, *clients)
        # The first to give up must not take from the others what they know.
        for client in clients:
            assert is_problem(raw.Answer(client.to_end()), 504, "upstream-timeout", "connection_timeout")


# Name servers


def test_a_name_that_is_not_there_is_a_502(names, start):
    gateway = start({"api": f"http://nobody.test:{free_port()}"})
    assert is_problem(ask(gateway), 502, "upstream-unreachable", "dns_error")
    # It may be there a moment later.
    assert is_problem(ask(gateway), 502, "upstream-unreachable", "dns_error")
    assert names.asked == ["nobody.test"] * 2


@pytest.mark.parametrize(
    "workers, count",
    [(1, 1), (8, 1), (1, 20)],
    ids=["one silent name", "one silent name for each of many loops", "many silent names"],
)
def test_a_silent_name_server_holds_up_only_who_needs_it(names, make_origin, time_stands, workers, count):
    origin = make_origin(leaving)
    names.addresses["good.test"] = ["127.0.0.1"]
    names.silent = {f"silent-{number}.test" for number in range(count)}
    silent = {name.removesuffix(".test"): f"http://{name}:{origin.port}" for name in names.silent}
    good = {"named": f"http://good.test:{origin.port}", "addressed": origin.url}
    gateway = time_stands.start({**silent, **good}, workers=workers, connect_timeout="2s")
    with contextlib.ExitStack() as stack:
        waiting = [(stack.enter_context(connect(gateway.port)), name) for name in silent for _ in range(64 // count)]
        for wire, name in waiting:
            wire.send(get(gateway, "Connection: close", path=f"/{name}/x"))
        for name in ("addressed", "named"):
            for _ in range(5):
                answer = ask(gateway, path=f"/{name}/x")
                assert answer.status == 200, answer.data
        time_stands.at(1.9)
        assert all(wire.is_quiet(0.005) for wire, _ in waiting), "they still wait"
        time_stands.at(2.1, *(wire for wire, _ in waiting))
        for wire, _ in waiting:
            assert is_problem(raw.Answer(wire.to_end()), 504, "upstream-timeout", "dns_timeout")


def test_a_silent_name_server_is_what_the_client_is_told_of(names, start):
    names.silent = {"silent.test"}
    gateway = start({"api": f"http://silent.test:{free_port()}"}, connect_timeout="500ms")
    assert is_problem(ask(gateway), 504, "upstream-timeout", "dns_timeout")


def test_a_gateway_ends_while_a_name_server_is_silent(names, start):
    """It does not wait for the resolver, which has more patience than the test."""
    names.silent, names.options = {"silent.test"}, "options timeout:30 attempts:2\n"
    gateway = start({"api": f"http://silent.test:{free_port()}"}, connect_timeout="500ms")
    assert ask(gateway).status == 504
    assert gateway.stop(seconds=15) == 0


def test_a_name_server_that_speaks_again_is_heard(names, make_origin, start):
    """The lookup that nobody answered goes on by itself; whoever comes later takes part in it."""
    origin = make_origin(leaving)
    names.addresses["api.test"] = ["127.0.0.1"]
    names.silent = {"api.test"}
    gateway = start({"api": f"http://api.test:{origin.port}"}, connect_timeout="500ms")
    assert ask(gateway).status == 504
    names.silent = set()
    wait_until(lambda: ask(gateway).status == 200, 12, "it is asked again")
