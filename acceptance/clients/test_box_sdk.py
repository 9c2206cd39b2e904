"""The unmodified Box SDK for Python, holding a token that is worth nothing: the gateway puts in the one that counts."""

import io
import time

import pytest
from box_sdk_gen import BoxClient, BoxDeveloperTokenAuth, BoxSDKError
from box_sdk_gen.box.errors import BoxAPIError
from box_sdk_gen.managers.uploads import UploadFileAttributes, UploadFileAttributesParentField
from box_sdk_gen.networking.base_urls import BaseUrls
from box_sdk_gen.networking.network import NetworkSession
from box_sdk_gen.networking.retries import BoxRetryStrategy
from harness.bytes import noise
from harness.configs import BOX

DUMMY = "not-a-token"


@pytest.fixture
def gateway(sandbox, start_gateway):
    return start_gateway(
        {
            # A part of a chunked upload is sent again only while it is still held.
            "limits": {"replay_body_bytes": "2MiB"},
            "credentials": {"service": BOX},
            "routes": {
                "box": {"upstream": "${SANDBOX_BOX_URL}", "auth": "service"},
                "downloads": {"upstream": "${SANDBOX_BOX_DOWNLOADS_URL}", "auth": "none"},
            },
        },
        environment=sandbox.environment,
    )


def client(urls, **session):
    retries = BoxRetryStrategy(retry_base_interval=0.01)
    network = NetworkSession(base_urls=urls, retry_strategy=retries, **session)
    return BoxClient(auth=BoxDeveloperTokenAuth(token=DUMMY), network_session=network)


@pytest.fixture
def by_path(gateway):
    """The SDK's base URL is a path of the gateway."""
    base = f"{gateway.url}/box"
    return client(BaseUrls(base_url=base, upload_url=f"{base}/api", oauth_2_url=f"{base}/oauth2"))


@pytest.fixture
def as_proxy(gateway, sandbox):
    """The SDK keeps Box's own addresses, and the gateway is its HTTP proxy."""
    base = sandbox["BOX_URL"]
    urls = BaseUrls(base_url=base, upload_url=f"{base}/api", oauth_2_url=f"{base}/oauth2")
    return client(urls, proxy_url=gateway.url)


@pytest.fixture(params=["by_path", "as_proxy"])
def box(request):
    return request.getfixturevalue(request.param)


def test_who_am_i(box, sandbox):
    me = box.users.get_user_me()
    assert me.name == "Sandbox Service Account"
    assert sandbox.token_calls("box") == 1


def test_a_folder_is_listed(box):
    items = box.folders.get_folder_items("0")
    assert [(item.type, item.name) for item in items.entries] == [("file", "one.txt"), ("folder", "Reports")]


def test_a_file_is_uploaded(box, sandbox):
    content = noise(300_000)
    attributes = UploadFileAttributes(name="small.bin", parent=UploadFileAttributesParentField(id="0"))
    files = box.uploads.upload_file(attributes, io.BytesIO(content))
    assert files.total_count == 1
    uploads = sandbox.state()["uploads"]
    assert uploads["count"] == 1 and uploads["bytes"] > len(content)


def test_a_big_file_is_uploaded_in_chunks(as_proxy, sandbox):
    content = noise((5 << 20) + 12_345)
    file = as_proxy.chunked_uploads.upload_big_file(io.BytesIO(content), "big.bin", len(content), "0")
    assert (file.name, file.size) == ("big.bin", len(content))
    assert sandbox.state()["uploads"] == {"count": 1, "bytes": len(content)}


def test_chunks_survive_a_revocation_between_them(as_proxy, sandbox):
    content = noise(3 << 20)

    class Revoking(io.BytesIO):
        def read(self, *arguments):
            sandbox.set("box", revoke_access=True)
            return super().read(*arguments)

    file = as_proxy.chunked_uploads.upload_big_file(Revoking(content), "big.bin", len(content), "0")
    assert file.size == len(content)
    assert sandbox.state()["uploads"]["count"] == 1


def test_a_download_follows_the_redirect_without_a_credential(box, sandbox):
    content = box.downloads.download_file("1").read()
    assert content.startswith(b"content of ")
    assert sandbox.state()["authorization_leaks"] == 0


def test_the_address_of_a_download_is_the_clients_business(box, sandbox):
    assert box.downloads.get_download_file_url("1").startswith(sandbox["BOX_DOWNLOADS_URL"])


def test_a_token_that_is_revoked_in_mid_flight_is_not_noticed(box, sandbox):
    for _ in range(3):
        assert box.users.get_user_me().name
        sandbox.set("box", revoke_access=True)
    assert box.users.get_user_me().name
    assert sandbox.token_calls("box") == 4


def test_an_upload_with_a_token_that_is_revoked_is_stored_once(box, sandbox):
    content = noise(300_000)
    assert box.users.get_user_me().name
    sandbox.set("box", revoke_access=True)
    attributes = UploadFileAttributes(name="small.bin", parent=UploadFileAttributesParentField(id="0"))
    assert box.uploads.upload_file(attributes, io.BytesIO(content)).total_count == 1
    assert sandbox.state()["uploads"]["count"] == 1
    assert sandbox.token_calls("box") == 2


class HeedingRetries(BoxRetryStrategy):
    """Waits as long as Box says. The SDK's own looks for `Retry-After`, and Box spells it in lower case."""

    def retry_after(self, fetch_options, fetch_response, attempt_number):
        return float(fetch_response.headers["retry-after"])


def test_a_rate_limit_reaches_the_sdk_which_waits_and_tries_again(box, sandbox):
    box.network_session.retry_strategy = HeedingRetries()
    assert box.users.get_user_me().name
    before = sandbox.state()["requests"]["box"]
    sandbox.set("box", api_status=429, api_retry_after="1", api_next=2)
    started = time.monotonic()
    assert box.users.get_user_me().name
    assert time.monotonic() - started >= 2, "it was heard both times"
    assert sandbox.state()["requests"]["box"] == before + 3
    assert sandbox.token_calls("box") == 1


def test_boxs_own_errors_arrive_as_they_are(box):
    with pytest.raises(BoxAPIError) as caught:
        box.folders.get_folder_items("404")
    assert caught.value.response_info.status_code == 404
    assert caught.value.response_info.code == "not_found"


def test_our_own_errors_are_ones_that_the_sdk_can_read(sandbox, start_gateway):
    gateway = start_gateway(
        {"routes": {"box": {"upstream": "${SANDBOX_BOX_URL}", "auth": {**BOX, "client_secret": "wrong"}}}},
        environment=sandbox.environment,
    )
    base = f"{gateway.url}/box"
    box = client(BaseUrls(base_url=base, upload_url=base, oauth_2_url=base))
    with pytest.raises(BoxSDKError) as caught:
        box.users.get_user_me()
    assert "client_id" in str(caught.value)
