/// Which folders of a target use which others, in layers: a folder uses folders of the layers before its own, so none leads back to
/// itself.
///
/// A use that comes or goes changes its row; a use of a later layer is a type in the wrong folder.
enum FolderTable {
    typealias Layer = [String: Set<String>]

    static let targets = ["GatewayCore": core, "GatewayRuntime": runtime]

    private static let core: [Layer] = [
        [
            "Backup": [],
            "Clients": [],
            "Connections": [],
            "Pool": [],
        ],
        [
            "Plan": ["Connections"]
        ],
        [
            "Decoding": ["Connections", "Plan"],
            "Routing": ["Plan"],
        ],
        [
            "Links": ["Plan", "Routing"],
            "Schema": ["Decoding"],
        ],
        [
            "Exchange": ["Links", "Plan"]
        ],
        [
            "Access": ["Connections", "Exchange", "Links", "Plan", "Routing"],
            "Ports": ["Clients", "Exchange", "Plan"],
            "Telemetry": ["Exchange"],
        ],
        [
            "Doctor": ["Clients", "Plan", "Ports"],
            "Explain": ["Access", "Plan", "Routing"],
            "Export": ["Access", "Plan"],
        ],
        [
            "Import": ["Explain"]
        ],
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
            "Console": [],
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
            "Doctor": [
                "Assembly", "Console", "Observability", "Operator", "Secrets", "State", "Storage", "Time",
            ]
        ],
        [
            "Commands": [
                "Anchor", "Assembly", "Backup", "Configuration", "Console", "Doctor", "Observability", "Operator",
                "Plan", "Programs", "Secrets", "State", "Storage", "Time",
            ]
        ],
    ]
}
