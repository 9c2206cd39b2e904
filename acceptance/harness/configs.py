"""Parts of configurations that many tests use."""

from .gateway import ROOT

#: Planted where a secret belongs; none of it may ever be found in an output.
CANARY = "CANARY-5f2c9a"

#: A credential that never changes.
BEARER = {"strategy": "bearer", "token": CANARY}


def plain_config(origin):
    """One route with a token that stays."""
    return {"routes": {"api": {"upstream": origin.url, "auth": BEARER}}}


def with_route(credential, upstream):
    """One credential, `me`, and one route that uses it."""
    return {"credentials": {"me": credential}, "routes": {"api": {"upstream": upstream, "auth": "me"}}}


#: The example of a program that keeps tokens in files.
TOKEN_SCRIPT = ROOT / "examples/token-stores/files.sh"


def command_store(folder, program=TOKEN_SCRIPT):
    """`tokens` of a gateway that keeps them with that program, and the folder where they are."""
    files = folder / "tokens"
    files.mkdir()
    return {"store": "command", "command": [str(program)], "environment": {"TOKEN_FOLDER": str(files)}}, files


# Credentials of the sandbox, with its own values in the file.


def box_authority(sandbox, **more):
    return {"token_url": sandbox["BOX_URL"] + "/oauth2/token", **more}


def box_client(sandbox):
    return {"client_id": sandbox["BOX_CLIENT_ID"], "client_secret": sandbox["BOX_CLIENT_SECRET"]}


def box_ccg(sandbox, **changes):
    """Box client credentials for the sandbox's enterprise."""
    subject = {"enterprise": sandbox["BOX_ENTERPRISE_ID"]}
    return box_authority(sandbox, strategy="box_ccg", **box_client(sandbox), subject=subject) | changes


def duke_session(sandbox, **changes):
    return {
        "strategy": "duke_session",
        "client_name": sandbox["DUKE_CLIENT"],
        "base_url": sandbox["DUKE_URL"],
        "access_token": sandbox["DUKE_ACCESS_TOKEN"],
        "session_token": sandbox["DUKE_SESSION_TOKEN"],
        **changes,
    }


# The same with values from the environment: for gateways that are started with `sandbox.environment`.

BOX = {
    "strategy": "box_ccg",
    "client_id": "${SANDBOX_BOX_CLIENT_ID}",
    "client_secret": {"env": "SANDBOX_BOX_CLIENT_SECRET"},
    "token_url": "${SANDBOX_BOX_URL}/oauth2/token",
    "subject": {"enterprise": "${SANDBOX_BOX_ENTERPRISE_ID}"},
}
OAUTH = {
    "strategy": "oauth2_client_credentials",
    "client_id": "${SANDBOX_OAUTH_CLIENT_ID}",
    "client_secret": {"env": "SANDBOX_OAUTH_CLIENT_SECRET"},
    "token_url": "${SANDBOX_OAUTH_URL}/oauth/token",
}
DUKE = {
    "strategy": "duke_session",
    "client_name": "${SANDBOX_DUKE_CLIENT}",
    "base_url": "${SANDBOX_DUKE_URL}",
    "access_token": {"env": "SANDBOX_DUKE_ACCESS_TOKEN"},
    "session_token": {"env": "SANDBOX_DUKE_SESSION_TOKEN"},
}
