"""What the tests stand the gateway against. Every gateway's log and files are searched for secrets when it ends."""

import contextlib
import os
import pathlib
import resource
import signal
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
# Checks in the harness explain themselves as those of the tests do.
pytest.register_assert_rewrite("harness")
pytest_plugins = ["harness.outcomes", "harness.variants"]

from harness import gateway as gateway_harness
from harness import seeds
from harness.authority import Authority
from harness.configs import CANARY, plain_config
from harness.clock import FalseClock
from harness.libraries import shared_library
from harness.gateway import Gateway
from harness.http2_origin import HTTP2Origin, server_context
from harness.marks import ALL_TESTS, marks_by_name
from harness.names import NameServer, private_network
from harness.origin import RecordingOrigin
from harness.other_user import OtherUser
from harness.sandbox import Sandbox
from harness.script import ScriptedOrigin
from harness.tls import CertificateAuthority, nginx_over_tls
from harness.tls_script import start_secure
from harness.token_server import TokenServer


def pytest_configure(config):
    if not config.option.collectonly and not os.access(gateway_harness.BINARY, os.X_OK):
        raise pytest.UsageError(f"no gateway at {gateway_harness.BINARY}: build it, or set AUTHGATEWAY_BINARY")
    try:
        seeds.configure()
    except ValueError:
        raise pytest.UsageError("AUTHGATEWAY_SEED is a number or `random`") from None
    # Tests that run behind nohup or in some build services inherit that these are ignored, and would hand that on to the gateway.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Before `-m` deselects some of them. A network of one's own, and another user to play, are had by root only."""
    for item in items:
        if {"network", "other_users"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("root")
        if seeds.is_seeded(item):
            item.add_marker("seeded")
    config.stash[ALL_TESTS] = marks_by_name(items)


def pytest_runtest_setup(item):
    seeds.give_seed(item)


def check_gateway(gateway):
    """Fails for a gateway that has ended by itself, and for one with a secret in its log."""
    gateway.check_end()
    assert CANARY.encode() not in gateway.log, "a secret is in the log"


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown():
    """Gateways of a module outlive the test that breaks them; the failure is that test's all the same."""
    for gateway in gateway_harness.started():
        check_gateway(gateway)


@contextlib.contextmanager
def ended_gateways(parent):
    """Makes gateways (not yet started) and ends them; searches what they wrote for secrets."""
    made = []

    def make(config, listeners=None, environment=None, folder=None, admin=None):
        gateway = Gateway(folder or parent / f"gateway-{len(made)}", config, listeners, environment, admin)
        made.append(gateway)
        return gateway

    try:
        yield make
        with contextlib.ExitStack() as stops:
            # Each is stopped, whatever the others end with.
            for gateway in made:
                stops.callback(gateway.stop)
        for gateway in made:
            check_gateway(gateway)
            for path, content in gateway.files().items():
                assert CANARY.encode() not in content, f"a secret is in {path}"
    finally:
        gateway_harness.forget(made)


@pytest.fixture
def make_gateway(tmp_path):
    with ended_gateways(tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def make_module_gateway(tmp_path_factory):
    """As `make_gateway`, for gateways that the tests of a module share: the search is at the end of the module."""
    with ended_gateways(tmp_path_factory.mktemp("gateways")) as make:
        yield make


@pytest.fixture
def seed():
    """For whatever a test chooses at random; see harness/seeds.py."""
    return seeds.choose()


@pytest.fixture
def start_gateway(make_gateway):
    return lambda *arguments, **options: make_gateway(*arguments, **options).start()


@pytest.fixture
def short_folder():
    """For sockets: their path may have 103 bytes, and those of tests are long. Other users may look into it."""
    with tempfile.TemporaryDirectory(prefix="gateway-") as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


@pytest.fixture
def other_users():
    """Two, by their numbers."""
    if os.geteuid() != 0:
        pytest.skip("another user is played by root only")
    return OtherUser(65533), OtherUser(1)


@pytest.fixture
def network():
    """The test and all that it starts are in a network of their own."""
    with private_network():
        yield


@pytest.fixture
def names(network, tmp_path):
    """The name server of that network."""
    server = NameServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def make_origin():
    made = []

    def make(*arguments):
        made.append(RecordingOrigin(*arguments))
        return made[-1]

    yield make
    for origin in made:
        origin.stop()


@pytest.fixture
def origin(make_origin):
    return make_origin()


@pytest.fixture
def make_http2_origin():
    """Starts origins that speak HTTP/2, by prior knowledge or over TLS when they are given a context for that."""
    made = []

    def make(*arguments, **options):
        made.append(HTTP2Origin(*arguments, **options))
        return made[-1]

    yield make
    for origin in made:
        origin.stop()


@pytest.fixture
def make_secure_http2_origin(make_http2_origin, certificate_authority):
    """The same with TLS; it offers these protocols."""

    def make(*protocols, **options):
        certificate, key = certificate_authority.issue("http2-upstream", "IP:127.0.0.1,DNS:upstream.test")
        return make_http2_origin(server_context(certificate, key, *protocols), **options)

    return make


@pytest.fixture
def make_script():
    """Starts origins that send and read as a test tells them; a step that failed fails the test."""
    made = []

    def make(steps):
        made.append(ScriptedOrigin(steps))
        return made[-1]

    yield make
    for origin in made:
        origin.stop()
    assert [failure for origin in made for failure in origin.failures] == []


@pytest.fixture
def against(make_script, start_gateway):
    """Starts an origin that follows a script, and a gateway before it."""

    def start(steps, **limits):
        origin = make_script(steps)
        return start_gateway({**plain_config(origin), "limits": limits}), origin

    return start


@pytest.fixture
def secure(make_script, start_gateway, certificate_authority):
    """As `against`, with TLS on both sides or where `side` says; the gateway's `dial` connects a client."""

    def start(steps, side="both", **limits):
        return start_secure(make_script, start_gateway, certificate_authority, steps, side, limits)

    return start


@pytest.fixture(scope="session")
def authority_process(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    yield authority
    authority.stop()


@pytest.fixture
def make_authority(request, tmp_path):
    """django-oauth-toolkit. The first of a test is the session's, as if new; one that a test ends or starts again is its `own`."""
    made, own_ones = [], []

    def make(own=False, **options):
        if own or made:
            folder = tmp_path / f"authority-{len(made)}"
            folder.mkdir()
            own_ones.append(Authority(folder, **options))
            made.append(own_ones[-1])
        else:
            made.append(request.getfixturevalue("authority_process"))
            made[-1].reset(**options)
        return made[-1]

    yield make
    for authority in own_ones:
        authority.stop()
    assert all(authority.process.poll() is None for authority in made if authority not in own_ones), "not this test's to stop"


@pytest.fixture
def authority(make_authority):
    return make_authority()


@contextlib.contextmanager
def ended_token_servers():
    made = []

    def make(*arguments):
        made.append(TokenServer(*arguments))
        return made[-1]

    yield make
    for server in made:
        server.stop()


@pytest.fixture
def make_token_server():
    """Starts token servers, over TLS when it is given a context for that."""
    with ended_token_servers() as make:
        yield make


@pytest.fixture(scope="module")
def make_module_token_server():
    """As `make_token_server`, for token servers that the tests of a module share."""
    with ended_token_servers() as make:
        yield make


@pytest.fixture
def token_server(make_token_server):
    return make_token_server()


@pytest.fixture(scope="session")
def killer(tmp_path_factory):
    """A library that ends the process that loads it at its nth write: see harness/kill_at_write.c."""
    return shared_library(tmp_path_factory.mktemp("killer"), "kill_at_write.c")


@pytest.fixture
def clock(clock_library, tmp_path):
    """For gateways whose clock goes wrong."""
    return FalseClock(clock_library, tmp_path)


@pytest.fixture(scope="session")
def clock_library(tmp_path_factory):
    return shared_library(tmp_path_factory.mktemp("clock"), "false_clock.c")


@pytest.fixture(scope="session")
def certificate_authority(tmp_path_factory):
    return CertificateAuthority(tmp_path_factory.mktemp("ca"), "acceptance-ca")


@pytest.fixture(scope="session")
def tls_upstream(tmp_path_factory, certificate_authority):
    """nginx with TLS; wants the canary as its bearer token."""
    certificate, key = certificate_authority.issue("upstream", "IP:127.0.0.1,DNS:upstream.test")
    nginx = nginx_over_tls(tmp_path_factory.mktemp("nginx"), certificate, key, f"Bearer {CANARY}")
    yield nginx
    nginx.stop()


@pytest.fixture(scope="session")
def sandbox_process(tmp_path_factory):
    sandbox = Sandbox(tmp_path_factory.mktemp("sandbox"))
    yield sandbox
    sandbox.stop()


@pytest.fixture
def sandbox(sandbox_process):
    """Without what an earlier test left behind."""
    sandbox_process.reset()
    return sandbox_process
