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
            "Clients": ["Addresses", "Secrets", "Text", "Time"],
            "Config": ["Addresses", "Secrets", "Text"],
            "Connections": ["Errors", "Text", "Time"],
            "Fleet": ["Time"],
            "HTTP": ["Errors", "Text"],
            "Pool": ["Errors", "Time"],
            "Traffic": ["Errors", "Time"],
        ],
        [
            "Backup": ["Text", "Time"],
            "HTTP1": ["Addresses", "HTTP", "Text"],
            "HTTP2": ["HTTP", "Text", "Time"],
            "Presets": ["Addresses", "Config", "Secrets", "Text", "Time"],
            "Rejections": ["Addresses", "HTTP", "Text", "Time"],
            "Tracing": ["HTTP", "Text", "Time"],
        ],
        ["Credentials": ["Errors", "HTTP", "Rejections", "Secrets", "Text", "Time"]],
        [
            "Audit": ["Connections", "Credentials", "Errors", "Secrets", "Text", "Time", "Traffic"],
            "Tokens": ["Addresses", "Credentials", "Errors", "Fleet", "HTTP", "Secrets", "Text", "Time"],
        ],
        ["Login": ["Addresses", "Errors", "Secrets", "Text", "Time", "Tokens"]],
        [
            "Auth": [
                "Addresses", "Config", "Credentials", "Errors", "Login", "Rejections", "Secrets", "Text", "Time",
                "Tokens",
            ]
        ],
        [
            "Lifecycle": ["Audit", "Auth", "Credentials", "Errors", "Secrets", "Text", "Time", "Tokens"],
            "Plan": [
                "Addresses", "Audit", "Auth", "Config", "Connections", "Credentials", "HTTP", "Secrets", "Text", "Time",
                "Tokens",
            ],
        ],
        [
            "Decoding": [
                "Addresses", "Audit", "Auth", "Config", "Connections", "Credentials", "HTTP", "Plan", "Presets",
                "Rejections", "Secrets", "Text",
                "Time",
                "Tokens",
            ],
            "Routing": ["Addresses", "Plan", "Text"],
        ],
        ["Links": ["Addresses", "HTTP", "Plan", "Routing", "Text"]],
        [
            "Exchange": [
                "Addresses", "Audit", "Credentials", "Errors", "HTTP", "Links", "Plan", "Rejections", "Text", "Time",
                "Tracing",
                "Traffic",
            ]
        ],
        [
            "Access": [
                "Addresses", "Auth", "Connections", "Credentials", "Errors", "Exchange", "HTTP", "Links", "Plan",
                "Routing",
                "Secrets", "Text", "Time", "Tokens",
            ],
            "Ports": [
                "Audit", "Auth", "Clients", "Config", "Credentials", "Errors", "Exchange", "Fleet", "Plan", "Secrets",
                "Text", "Time", "Tokens", "Traffic",
            ],
            "Schema": ["Auth", "Config", "Decoding", "Secrets", "Text"],
            "Telemetry": ["Addresses", "Errors", "Exchange", "Text", "Time", "Tokens", "Tracing"],
        ],
        [
            "Explain": [
                "Access", "Addresses", "Audit", "Errors", "HTTP", "HTTP1", "Plan", "Routing", "Text", "Time",
                "Tokens",
            ],
            "Export": [
                "Access", "Addresses", "Credentials", "HTTP", "Plan", "Secrets", "Text", "Time", "Tokens",
            ],
        ],
        ["Import": ["Addresses", "Config", "Explain", "Secrets", "Text"]],
        ["Doctor": ["Addresses", "Clients", "Config", "Errors", "Fleet", "Plan", "Ports", "Text", "Time", "Tokens"]],
    ]

    private static let runtime: [Layer] = [
        [
            "Login": [],
            "Secrets": [],
            "Time": [],
        ],
        ["State": ["Time"]],
        [
            "Anchor": ["Secrets"],
            "Console": ["State"],
            "Programs": ["Secrets"],
        ],
        [
            "Configuration": ["Console", "Secrets", "State", "Time"],
            "Observability": ["Console", "Time"],
            "Storage": ["Anchor", "Console", "Secrets", "State", "Time"],
        ],
        ["Plan": ["Observability", "State"]],
        [
            "Reload": ["Configuration", "Console", "Observability", "Plan", "Secrets", "State"],
            "Vending": ["Observability", "Plan"],
        ],
        [
            "Assembly": [
                "Anchor", "Configuration", "Console", "Login", "Observability", "Plan", "Reload", "Secrets", "State",
                "Storage", "Time", "Vending",
            ]
        ],
        [
            "Operator": [
                "Assembly", "Configuration", "Console", "Login", "Observability", "Plan", "Secrets", "State",
                "Storage", "Time",
            ]
        ],
        ["Backup": ["Assembly", "Console", "State", "Storage"]],
        [
            "Commands": [
                "Anchor", "Assembly", "Backup", "Configuration", "Console", "Observability", "Operator", "Plan",
                "Programs",
                "Secrets", "State", "Storage", "Time",
            ]
        ],
        [
            "Doctor": [
                "Assembly", "Commands", "Configuration", "Console", "Observability", "Operator", "Plan", "Secrets",
                "State", "Storage", "Time",
            ]
        ],
    ]
}
