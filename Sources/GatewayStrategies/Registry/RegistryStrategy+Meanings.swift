import GatewayCore

extension RegistryStrategy {
    static let meanings: [String: KeyMeaning] = [
        "realm_hosts": KeyMeaning(
            "The token servers that may get the password: host, or host:port. A challenge that names another is passed on.",
            example: "[auth.docker.io]"
        ),
        "username": KeyMeaning("The user name. Without it tokens are for what everybody may pull.", example: "me"),
        "password": KeyMeaning("The password, or an access token in its place.", example: "{env: REGISTRY_PASSWORD}"),
    ]
}
