/// Configurations against the sandbox, as they follow the listeners.
enum Configurations {
    static let twoRoutesOneCredential = """
        credentials:
          service:
            strategy: box_ccg
            client_id: ${SANDBOX_BOX_CLIENT_ID}
            client_secret: {env: SANDBOX_BOX_CLIENT_SECRET}
            subject: {enterprise: "${SANDBOX_BOX_ENTERPRISE_ID}"}
            token_url: ${SANDBOX_BOX_URL}/oauth2/token
          # Every input of the grant is the same, so the token is.
          twin:
            strategy: box_ccg
            client_id: ${SANDBOX_BOX_CLIENT_ID}
            client_secret: {env: SANDBOX_BOX_CLIENT_SECRET}
            subject: {enterprise: "${SANDBOX_BOX_ENTERPRISE_ID}"}
            token_url: ${SANDBOX_BOX_URL}/oauth2/token
        routes:
          box: {upstream: "${SANDBOX_BOX_URL}", auth: service}
          second: {upstream: "${SANDBOX_BOX_URL}", auth: service}
          third: {upstream: "${SANDBOX_BOX_URL}", auth: twin}
          user:
            upstream: ${SANDBOX_BOX_URL}
            auth: {credential: service, subject: {user: "${SANDBOX_BOX_USER_ID}"}}
        """

    static let upstream = """
        credentials:
          service:
            strategy: oauth2_client_credentials
            token_url: ${SANDBOX_OAUTH_URL}/oauth/token
            client_id: ${SANDBOX_OAUTH_CLIENT_ID}
            client_secret: {env: SANDBOX_OAUTH_CLIENT_SECRET}
        routes:
          api: {upstream: "${SANDBOX_UPSTREAM_URL}", auth: service}
          basic:
            upstream: ${SANDBOX_UPSTREAM_URL}
            auth: {strategy: basic, username: "${SANDBOX_UPSTREAM_USER}", password: {env: SANDBOX_UPSTREAM_PASSWORD}}
          open: {upstream: "${SANDBOX_UPSTREAM_URL}/public", auth: none}
          down: {upstream: "http://127.0.0.1:1", auth: none}
        """

    static let clients = """
        access:
          clients:
            laptop: {token: {env: SANDBOX_BOX_CLIENT_SECRET}}
            other: {token: {env: SANDBOX_OAUTH_CLIENT_SECRET}}
        routes:
          open: {upstream: "${SANDBOX_UPSTREAM_URL}/public", auth: none}
          private: {upstream: "${SANDBOX_UPSTREAM_URL}/public", auth: none, clients: [laptop]}
        """

    static let wrongSecret = """
        credentials:
          service:
            strategy: box_ccg
            client_id: ${SANDBOX_BOX_CLIENT_ID}
            client_secret: {env: SANDBOX_OAUTH_CLIENT_SECRET}
            subject: {enterprise: "1000001"}
            token_url: ${SANDBOX_BOX_URL}/oauth2/token
        routes:
          box: {upstream: "${SANDBOX_BOX_URL}", auth: service}
        """

    static let campus = """
        routes:
          campus:
            upstream: ${SANDBOX_DUKE_URL}
            auth:
              strategy: duke_session
              client_name: ${SANDBOX_DUKE_CLIENT}
              base_url: ${SANDBOX_DUKE_URL}
              access_token: {env: SANDBOX_DUKE_ACCESS_TOKEN}
              session_token: {env: SANDBOX_DUKE_SESSION_TOKEN}
        """
}
