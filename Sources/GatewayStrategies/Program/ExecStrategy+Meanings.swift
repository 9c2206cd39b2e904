import GatewayCore

extension ExecStrategy {
    static let meanings = SharedMeanings.of("default_ttl", "apply").merging([
        "command": KeyMeaning(
            "The program that prints the token, and its arguments. No shell is used; ./ is the folder of this file.",
            example: "[./bin/print-token, --audience, reports]"
        ),
        "environment": KeyMeaning(
            "Variables for the program, beside PATH, HOME and a few more.",
            default: "{}",
            example: "PROFILE: production\nVAULT_TOKEN: {env: VAULT_TOKEN}"
        ),
        "timeout": KeyMeaning("Maximum time of one run; at most 15s.", default: "10s", example: "5s"),
        "format": KeyMeaning("What the program prints.", default: "json", example: "text"),
    ]) { own, _ in own }
}
