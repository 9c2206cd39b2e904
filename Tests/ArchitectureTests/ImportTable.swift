/// What each target may import: the table of docs/architecture.md. A row changes only together with an ADR.
enum ImportTable {
    static let rows: [String: Set<String>] = [
        // Values and state machines.
        "GatewayCore": ["FoundationEssentials", "Synchronization"],
        "GatewayStrategies": ["GatewayCore", "Crypto", "CryptoExtras"],

        // What siblings share, without anything of the gateway in it.
        "GatewayFiles": ["FoundationEssentials"] + platform,
        "GatewaySQLite": ["GatewayCore", "GRDB", "GRDBSQLite", "Dispatch", "Synchronization"],

        "GatewayPostgreSQL": ["GatewayCore", "CPostgreSQL", "Foundation", "Synchronization"] + platform,

        // Siblings, each with its one dependency.
        "GatewayTokenKeeper": ["GatewayCore", "Synchronization", "ServiceLifecycle", "Logging", "Metrics"],
        "GatewayYAML": ["GatewayCore", "CLibYAML", "Synchronization"],
        "GatewayTokenClient": adapter + ["AsyncHTTPClient", "NIOHTTP1", "NIOHTTPCompression"] + nio,
        "GatewayTokenStores": adapter + ["GatewayFiles", "GatewaySQLite", "GatewayPostgreSQL", "GRDB", "Crypto"],
        "GatewayAudit": adapter + ["GatewayFiles", "GatewaySQLite", "GatewayPostgreSQL", "GRDB", "Crypto"],
        "GatewayLocalAuthority": ["GatewayCore", "GatewayFiles", "Crypto", "X509", "SwiftASN1", "Synchronization"]
            + foundation + platform,
        "GatewayAdmin": adapter + ["Hummingbird", "HummingbirdCore", "HTTPTypes", "NIOCore", "NIOPosix"],
        "GatewayProxy": ["GatewayCore", "GatewayFiles", "Logging", "Synchronization", "NIOHTTP2", "NIOHPACK"] + nio
            + platform,

        // Ships in the program, and is asked over sockets only.
        "GatewaySandbox": adapter + [
            "Hummingbird", "HummingbirdCore", "HTTPTypes", "NIOCore", "NIOHTTPTypes", "Crypto", "CryptoExtras",
            "ServiceLifecycle",
        ],

        // Where siblings meet.
        "GatewayRuntime": adapter + siblings + nio + platform + [
            "GatewayFiles", "GatewayPostgreSQL", "AsyncHTTPClient", "Crypto", "NIOHTTP1", "ServiceLifecycle",
            "UnixSignals", "Metrics",
            "CPresets", "CBuildRecord",
        ],
        "authgateway": ["GatewayRuntime", "ArgumentParser"] + foundation + platform,

        "GatewayTesting": ["GatewayCore", "Synchronization"] + foundation,
    ]

    private static let siblings: Set = [
        "GatewayStrategies", "GatewayTokenKeeper", "GatewayYAML", "GatewayTokenClient", "GatewayTokenStores",
        "GatewayAudit", "GatewayAdmin", "GatewayLocalAuthority", "GatewayProxy", "GatewaySandbox",
    ]
    private static let adapter = ["GatewayCore", "Logging", "Synchronization"] + foundation
    private static let nio: Set = ["NIOCore", "NIOPosix", "NIOSSL", "NIOTLS", "NIOConcurrencyHelpers"]
    private static let foundation: Set = ["Foundation", "FoundationEssentials"]
    /// The C library, under the names that the platforms give it.
    private static let platform: Set = ["Glibc", "Musl", "Darwin"]
}

private func + (left: Set<String>, right: Set<String>) -> Set<String> { left.union(right) }
