/// Which folders of a target use which others, in layers: a folder uses folders of the layers before its own, so none leads back to
/// itself.
///
/// A use that comes or goes changes its row; a use of a later layer is a type in the wrong folder.
enum FolderTable {
    typealias Layer = [String: Set<String>]

    static let targets = ["GatewayCore": core, "GatewayRuntime": runtime]

    private static let core: [Layer] = [
        [
            "Process": [],
            "Time": [],
        ],
        ["Text": ["Time"]],
        [
            "Addresses": ["Text"],
            "Errors": ["Text", "Time"],
            "Secrets": ["Text"],
        ],
        [
            "Config": ["Addresses", "Secrets", "Text"],
            "Connections": ["Errors", "Text", "Time"],
            "HTTP": ["Errors", "Text"],
            "Pool": ["Errors", "Time"],
        ],
        [
            "HTTP1": ["HTTP", "Text"],
            "Rejections": ["HTTP", "Text", "Time"],
        ],
        ["Credentials": ["Errors", "HTTP", "Rejections", "Secrets", "Text", "Time"]],
        [
            "Audit": ["Credentials", "Errors", "Secrets", "Text", "Time"],
            "Tokens": ["Addresses", "Credentials", "Errors", "HTTP", "Secrets", "Text", "Time"],
        ],
        ["Login": ["Addresses", "Errors", "Secrets", "Text", "Time", "Tokens"]],
        ["Auth": ["Addresses", "Config", "Credentials", "Errors", "Login", "Secrets", "Text", "Time", "Tokens"]],
        [
            "Lifecycle": ["Audit", "Auth", "Credentials", "Errors", "Secrets", "Time", "Tokens"],
            "Plan": [
                "Addresses", "Audit", "Auth", "Config", "Credentials", "HTTP", "Secrets", "Text", "Time", "Tokens",
            ],
        ],
        [
            "Decoding": [
                "Addresses", "Audit", "Auth", "Config", "Credentials", "HTTP", "Plan", "Secrets", "Text", "Time",
                "Tokens",
            ],
            "Exchange": ["Credentials", "Errors", "HTTP", "Plan", "Text", "Time"],
            "Routing": ["Addresses", "Plan", "Text"],
        ],
        [
            "Access": [
                "Addresses", "Auth", "Credentials", "Errors", "HTTP", "Plan", "Routing", "Secrets", "Text", "Time",
            ],
            "Ports": [
                "Audit", "Auth", "Config", "Credentials", "Errors", "Exchange", "Plan", "Secrets", "Time", "Tokens",
            ],
            "Schema": ["Auth", "Config", "Decoding", "Secrets", "Text"],
        ],
    ]

    private static let runtime: [Layer] = [
        [
            "Login": [],
            "Secrets": [],
            "State": [],
            "Time": [],
        ],
        ["Console": ["State"]],
        [
            "Configuration": ["Console", "Secrets", "Time"],
            "Observability": ["Console", "Time"],
            "Storage": ["Console", "Secrets", "State"],
        ],
        ["Plan": ["Observability", "State"]],
        [
            "Reload": ["Configuration", "Console", "Observability", "Plan", "State"],
            "Vending": ["Observability", "Plan"],
        ],
        [
            "Assembly": [
                "Configuration", "Console", "Login", "Observability", "Plan", "Reload", "Secrets", "State",
                "Storage", "Time", "Vending",
            ]
        ],
        [
            "Operator": [
                "Assembly", "Configuration", "Console", "Login", "Observability", "Plan", "Secrets", "State",
                "Storage", "Time",
            ]
        ],
        [
            "Commands": [
                "Assembly", "Configuration", "Console", "Observability", "Operator", "Plan", "Secrets", "State",
                "Storage", "Time",
            ]
        ],
    ]
}
