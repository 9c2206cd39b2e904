import GatewayCore

extension BasicStrategy {
    static let meanings: [String: KeyMeaning] = [
        "username": KeyMeaning("The user name (RFC 7617).", example: "svc"),
        "password": KeyMeaning("The password.", example: "{env: REPORTS_PASSWORD}"),
        "mode": KeyMeaning(
            "When the password is sent: with every request, or from the first Basic challenge on.",
            default: "preemptive",
            example: "challenge"
        ),
        "realm": KeyMeaning("The only realm whose challenge is answered, for mode: challenge.", example: "reports"),
    ]
}

extension BearerStrategy {
    static let meanings = ["token": KeyMeaning("The fixed bearer token.", example: "{env: API_TOKEN}")]
}

extension HeaderStrategy {
    static let meanings: [String: KeyMeaning] = [
        "name": KeyMeaning("The header field to set.", default: "Authorization", example: "X-Api-Key"),
        "scheme": KeyMeaning("What stands before the value, with a space between them.", example: "Token"),
        "value": KeyMeaning("The API key or other secret.", example: "{env: API_KEY}"),
        "format": KeyMeaning(
            "The text in the header field, behind the scheme, with {{token}} for the value.",
            default: "\"{{token}}\"",
            example: "\"token={{token}}\""
        ),
        "query": KeyMeaning("The parameter of the query to set, in the place of a header field.", example: "api_key"),
        "path": KeyMeaning(
            "What stands before the path of each request, with {{token}} for the value, in the place of a header field.",
            example: "\"/bot{{token}}\""
        ),
    ]
}
