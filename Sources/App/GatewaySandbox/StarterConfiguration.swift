/// The configuration of a first run: `gateway.yaml` of the repository without its first line, which names a file there.
package enum StarterConfiguration {
    package static let text = """
        # The configuration of a first run. `authgateway run --sandbox` serves it with a sandbox of local authorities, so
        # that every route works without an account anywhere. It sets the SANDBOX_ variables.
        # For real use, put real URLs and secrets in their places. `authgateway config explain KEY` explains every key,
        # and examples/strategies/ has one whole file for each way to sign in.
        version: 1

        # What must survive a restart: the audit log, the tokens, the key. Created with mode 0700.
        state_directory: ./state

        # Event-loop threads: auto is one per core.
        workers: auto

        listeners:
          proxy:
            # Where clients connect. Another than a loopback address needs access.clients.
            - address: 127.0.0.1:8080
            # - unix: ./state/proxy.sock
          # Status page, /healthz, /readyz and what `authgateway status` asks; loopback only.
          # In its place, for this user's commands alone: {unix: ./state/admin.sock}
          admin: {address: 127.0.0.1:8081}

        # Who may use the gateway. Without clients: everybody on this machine.
        # access:
        #   clients:
        #     laptop: {token: {file: ./laptop.token}, limits: {concurrent: 50, per_second: 200}}

        audit:
          # One row per token event; read it with sqlite3 or `authgateway audit tail -f`.
          path: ./state/audit.sqlite
          # Uses are counted per minute. none: not at all. request: every request has a row as well.
          usage: minute
          retention: 90d
          # block: a token whose event could not be written is not used. degrade: it is used all the same.
          on_failure: block
          # refuse: nothing is recorded while the database is gone. recreate: a new one is begun, and its first event says so.
          on_missing: refuse
          # The database with its write-ahead log. In the last tenth only token and operator events are recorded.
          max_bytes: 10GiB
          # The head of the log is also appended here, so that a log that was put back shows. Or {syslog: true}.
          # anchor: {file: /mnt/elsewhere/audit.heads}

        tokens:
          # sqlite survives a restart, encrypted; memory does not.
          store: sqlite
          path: ./state/tokens.sqlite
          # Created on the first run with mode 0600. Keep a copy apart from the databases.
          key: {file: ./state/token.key}

        # Every limit and its default is in docs/reference.md.
        limits:
          credential_timeout: 20s
          drain: 30s

        # Credentials have names and are shared by routes: one token for all of them.
        credentials:
          # Box client credentials, as the service account of an enterprise.
          box-service:
            strategy: box_ccg
            client_id: ${SANDBOX_BOX_CLIENT_ID:?start with --sandbox, or put your own values here}
            client_secret: {env: SANDBOX_BOX_CLIENT_SECRET}
            subject: {enterprise: "${SANDBOX_BOX_ENTERPRISE_ID:-0}"}
            # Box's own when left out.
            token_url: ${SANDBOX_BOX_URL:-https://api.box.com}/oauth2/token
            # Hand a weaker token to a client of access.clients that asks for it: POST /tokens/box-service.
            # vend: {clients: [laptop], downscope: {scopes: [item_preview]}}

          # Any OAuth 2.0 server (RFC 6749, client credentials).
          reports-service:
            strategy: oauth2_client_credentials
            token_url: ${SANDBOX_OAUTH_URL:-https://localhost}/oauth/token
            client_id: ${SANDBOX_OAUTH_CLIENT_ID:-none}
            client_secret: {env: SANDBOX_OAUTH_CLIENT_SECRET}
            scopes: [read]

          # Two tokens that both rotate.
          campus:
            strategy: duke_session
            client_name: ${SANDBOX_DUKE_CLIENT:-dukemobile}
            base_url: ${SANDBOX_DUKE_URL:-https://localhost}
            access_token: {env: SANDBOX_DUKE_ACCESS_TOKEN}
            session_token: {env: SANDBOX_DUKE_SESSION_TOKEN}

        # A request to /box/... or to the host box.localhost goes to the upstream of the route box, signed in.
        routes:
          box:
            upstream: ${SANDBOX_BOX_URL:-https://api.box.com}
            auth: box-service

          # The same credential speaking for one user: another token.
          box-user:
            upstream: ${SANDBOX_BOX_URL:-https://api.box.com}
            auth: {credential: box-service, subject: {user: "${SANDBOX_BOX_USER_ID:-0}"}}

          reports:
            upstream: ${SANDBOX_UPSTREAM_URL:-https://localhost}
            auth: reports-service

          campus:
            upstream: ${SANDBOX_DUKE_URL:-https://localhost}
            auth: campus

          # A user name and password, written into the route that needs them; reading only.
          basic:
            upstream: ${SANDBOX_UPSTREAM_URL:-https://localhost}
            auth:
              strategy: basic
              username: ${SANDBOX_UPSTREAM_USER:-nobody}
              password: {env: SANDBOX_UPSTREAM_PASSWORD}
            allow:
              - {methods: [GET, HEAD], path: /**}

          # Forwards as it is, cookies too (cookies: pass). Routes with a credential drop them unless they say so.
          open:
            upstream: ${SANDBOX_UPSTREAM_URL:-https://localhost}/public
            auth: none

        """
}
