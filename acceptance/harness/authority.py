"""The OAuth server of `oauth_server.py` as a process, and a look into its database."""

import pathlib
import sqlite3
import subprocess
import sys
import time
from datetime import datetime, timezone

import requests

from . import processes


# A database that has just been set up, as bytes: setting up the next one by copying it saves a second each time.
_fresh = None


class Authority:
    client_id = "cc"
    client_secret = "s3cret-of-cc"

    def __init__(self, folder, lifetime=3600, token_delay=0.0):
        self.database = pathlib.Path(folder) / "oauth.sqlite"
        self.log = self.database.with_name("oauth.log")
        self.port = processes.free_port()
        self.arguments = [str(lifetime), str(token_delay)]
        self.start()

    def start(self):
        """Also after a stop: on the same port, with the same database."""
        global _fresh
        is_new = not self.database.exists()
        if is_new and _fresh:
            self.database.write_bytes(_fresh)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(pathlib.Path(__file__).with_name("oauth_server.py")), str(self.database)]
                + [str(self.port), *self.arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                env=processes.environment(),
            )
        processes.first_line(self.process, 60)
        if is_new and not _fresh:
            with sqlite3.connect(self.database, timeout=20) as database:
                _fresh = database.serialize()
            database.close()

    def reset(self, lifetime=3600, token_delay=0.0, grace=0):
        """Without what earlier tests left behind; takes milliseconds, where a start takes seconds."""
        wanted = {"lifetime": lifetime, "token_delay": token_delay, "grace": grace}
        assert requests.post(f"{self.url}/reset", json=wanted, timeout=30).status_code == 204

    def change(self, **settings):
        """`lifetime`, `token_delay` or `grace`, for what is issued from now on."""
        assert requests.post(f"{self.url}/change", json=settings, timeout=30).status_code == 204

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def token_url(self):
        return f"{self.url}/o/token/"

    def tokens(self):
        """Every token ever issued, oldest first, with its end in seconds since the epoch."""
        with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=20) as database:
            rows = database.execute("select token, expires from oauth2_provider_accesstoken order by id").fetchall()
        database.close()
        return [(token, datetime.fromisoformat(end).replace(tzinfo=timezone.utc).timestamp()) for token, end in rows]

    def accepts(self, token):
        return any(known == token and end > time.time() for known, end in self.tokens())

    def expired(self):
        return sum(1 for _, end in self.tokens() if end < time.time())

    def revoke_all(self):
        """As an administrator would: the tokens are gone, nobody is told."""
        with sqlite3.connect(self.database, timeout=20) as database:
            database.execute("update oauth2_provider_accesstoken set expires = '2000-01-01 00:00:00'")
        database.close()

    def credential(self):
        return {
            "strategy": "oauth2_client_credentials",
            "token_url": self.token_url,
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "scopes": ["read"],
        }

    def password_credential(self, **changes):
        return {
            "strategy": "oauth2_password",
            "token_url": self.token_url,
            "client_id": "pw",
            "client_secret": "s3cret-of-pw",
            "username": "ada",
            "password": "pw-of-ada",
            "scopes": ["read"],
            **changes,
        }

    def login_credential(self, **changes):
        return {
            "strategy": "oauth2_authorization_code",
            "authorize_url": f"{self.url}/o/authorize/",
            "token_url": self.token_url,
            "revoke_url": f"{self.url}/o/revoke_token/",
            "client_id": "web",
            "client_secret": "s3cret-of-web",
            "scopes": ["read"],
            **changes,
        }

    def refresh_tokens(self):
        """(when revoked or None) of every refresh token ever issued, oldest first."""
        with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=20) as database:
            rows = database.execute("select revoked from oauth2_provider_refreshtoken order by id").fetchall()
        database.close()
        return [revoked for (revoked,) in rows]

    def log_in(self):
        """The tokens that `ada` gets for her password, as the authority answers."""
        form = {"grant_type": "password", "username": "ada", "password": "pw-of-ada", "scope": "read"}
        answer = requests.post(self.token_url, data=form, auth=("pw", "s3cret-of-pw"), timeout=30)
        assert answer.status_code == 200, (answer.text, self.log.read_text(encoding="utf-8")[-4000:])
        return answer.json()

    def calls(self):
        """How many of each grant and outcome the token endpoint has answered: `refresh_token ok`, `refresh_token invalid_grant`."""
        return requests.get(f"{self.url}/calls", timeout=30).json()

    def stop(self):
        processes.end(self.process)
