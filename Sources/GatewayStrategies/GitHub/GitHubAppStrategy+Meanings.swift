import GatewayCore

extension GitHubAppStrategy {
    static let meanings: [String: KeyMeaning] = SharedMeanings.of("passphrase", "apply").merging([
        "app_id": KeyMeaning("The ID of the app, from its settings.", example: "\"123456\""),
        "client_id": KeyMeaning("The client ID of the app, in the place of app_id.", example: "Iv23liabcdef"),
        "private_key": KeyMeaning("A private key of the app, in PEM.", example: "{file: app.private-key.pem}"),
        "installation_id": KeyMeaning(
            "The number of the installation; it ends the address of the installation's settings.",
            example: "12345678"
        ),
        "owner": KeyMeaning(
            "The organization or user where the app is installed, in the place of installation_id.",
            example: "acme"
        ),
        "repositories": KeyMeaning(
            "The repositories that the token opens, without their owner.",
            default: "all of the installation",
            example: "[web, docs]"
        ),
        "permissions": KeyMeaning(
            "What the token may do.",
            default: "all that the installation may",
            example: "contents: read\nissues: write"
        ),
        "api_url": KeyMeaning(
            "The API of a GitHub Enterprise Server.",
            default: "https://api.github.com",
            example: "https://github.example.com/api/v3"
        ),
    ]) { _, own in own }
}
