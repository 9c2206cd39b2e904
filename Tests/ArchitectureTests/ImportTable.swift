/// Which target may import which, and what else: the map of docs/architecture.md. A row changes only together with an ADR.
enum ImportTable {
    /// Lowest first. A target may import those before it.
    static let order = [
        "GatewayHTTP", "GatewayEvents", "GatewayFiles", "GatewayConfiguration", "GatewayTokens", "GatewayCore",
        "GatewayTesting", "GatewayStrategies", "GatewayTokenClient", "GatewayTokenStores", "GatewayAudit",
        "GatewayLocalAuthority", "GatewayAdmin", "GatewayProxy", "GatewaySandbox", "GatewayRuntime", "authgateway",
    ]

    /// They do not know each other, and meet in GatewayRuntime.
    static let siblings: Set = [
        "GatewayTesting", "GatewayStrategies", "GatewayTokenClient", "GatewayTokenStores", "GatewayAudit",
        "GatewayLocalAuthority", "GatewayAdmin", "GatewayProxy", "GatewaySandbox",
    ]

    /// Modules that are not the gateway's.
    static let others: [String: Set<String>] = [
        "GatewayHTTP": ["FoundationEssentials", "Synchronization"],
        "GatewayEvents": [],
        "GatewayFiles": ["GRDB", "GRDBSQLite", "CPostgreSQL", "Dispatch", "Synchronization"] + foundation + platform,
        "GatewayConfiguration": ["CLibYAML"],
        "GatewayTokens": ["ServiceLifecycle", "Logging", "Metrics", "Synchronization"],
        "GatewayCore": ["FoundationEssentials", "Synchronization"],
        "GatewayTesting": ["Synchronization"] + foundation,
        "GatewayStrategies": ["Crypto", "CryptoExtras"],
        "GatewayTokenClient": adapter + ["AsyncHTTPClient", "NIOHTTP1", "NIOHTTPCompression"] + nio,
        "GatewayTokenStores": adapter + ["GRDB", "Crypto"],
        "GatewayAudit": adapter + ["GRDB", "Crypto"],
        "GatewayLocalAuthority": ["Crypto", "X509", "SwiftASN1", "Synchronization"] + foundation + platform,
        "GatewayAdmin": adapter + ["Hummingbird", "HummingbirdCore", "HTTPTypes", "NIOCore", "NIOPosix"],
        "GatewayProxy": ["Logging", "Synchronization", "NIOHTTP2", "NIOHPACK"] + nio + platform,
        "GatewaySandbox": adapter + [
            "Hummingbird", "HummingbirdCore", "HTTPTypes", "NIOCore", "NIOHTTPTypes", "Crypto", "CryptoExtras",
            "ServiceLifecycle",
        ],
        "GatewayRuntime": adapter + nio + platform + [
            "ArgumentParser", "AsyncHTTPClient", "Crypto", "NIOHTTP1", "ServiceLifecycle", "UnixSignals", "Metrics",
            "CPresets",
            "CBuildRecord",
        ],
        "authgateway": [],
    ]

    static func allows(_ module: String, in target: String) -> Bool {
        guard let place = order.firstIndex(of: target) else { return false }
        if others[target]?.contains(module) == true { return true }
        // The program knows the runtime alone.
        if target == "authgateway" { return module == "GatewayRuntime" }
        let isSibling = siblings.contains(target) && siblings.contains(module)
        return order[..<place].contains(module) && !isSibling && module != "GatewayTesting"
    }

    private static let adapter: Set = ["Logging", "Synchronization", "Foundation", "FoundationEssentials"]
    private static let nio: Set = ["NIOCore", "NIOPosix", "NIOSSL", "NIOTLS", "NIOConcurrencyHelpers"]
    private static let foundation: Set = ["Foundation", "FoundationEssentials"]
    /// The C library, under the names that the platforms give it.
    private static let platform: Set = ["Glibc", "Musl", "Darwin"]
}

/// Which files of the targets that decide also act: with a clock, a task, a lock, a logger or a library. Every other file of these
/// targets is pure: it imports none of that, and names no type that one of these declares.
enum ImpureFiles {
    static let targets: Set = [
        "GatewayHTTP", "GatewayEvents", "GatewayConfiguration", "GatewayTokens", "GatewayCore", "GatewayStrategies",
    ]

    /// A folder stands for all of its files. The list shrinks, or stays as it is.
    static let paths = [
        "GatewayConfiguration/YAML/",
        "GatewayCore/Access/ClientJWTVerifier.swift",
        "GatewayCore/Access/ClientKeySets.swift",
        "GatewayCore/Access/ClientTokenUses.swift",
        "GatewayCore/Access/ClientUsage.swift",
        "GatewayCore/Connections/ConnectionsPerAddress.swift",
        "GatewayCore/Connections/UnfinishedHeads.swift",
        "GatewayCore/Connections/UploadMemory.swift",
        "GatewayCore/Decoding/PresetText.swift",
        "GatewayCore/Pool/ClientLeases.swift",
        "GatewayHTTP/Time/Promise.swift",
        "GatewayTokens/Credentials/ChallengeCredentialSource.swift",
        "GatewayTokens/Credentials/ChallengeTokenCredentials.swift",
        "GatewayTokens/Credentials/Credential.swift",
        "GatewayTokens/Credentials/FixedCredentialSource.swift",
        "GatewayTokens/Keeper/",
        "GatewayTokens/Rejections/ConfirmedTemplates.swift",
        "GatewayTokens/Rejections/RejectionRecord.swift",
    ]

    static func contains(_ path: String) -> Bool { paths.contains { path.hasPrefix($0) } }

    /// A pure file may encode: FoundationEssentials has JSON and base64. Strategies sign.
    static let pureModules: Set = ["FoundationEssentials", "Crypto", "CryptoExtras"]
}

private func + (left: Set<String>, right: Set<String>) -> Set<String> { left.union(right) }
