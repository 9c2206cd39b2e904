/// Which target may import which, and what else: the map of docs/internals/architecture.md. A row changes only together with an ADR.
enum ImportTable {
    /// Lowest first. A target may import those before it.
    static let order = [
        "GatewayHTTP", "GatewayEvents", "GatewayFiles", "GatewayConfiguration", "GatewayTokens", "GatewayTesting",
        "GatewayStrategies", "GatewayTokenClient", "GatewayTokenStores", "GatewayAudit", "GatewayProxy",
        "GatewayLocalAuthority", "GatewaySandbox", "GatewayApp", "GatewayTools", "authgateway",
    ]

    /// They do not know each other, and meet in GatewayApp.
    static let siblings: Set = [
        "GatewayTesting", "GatewayStrategies", "GatewayTokenClient", "GatewayTokenStores", "GatewayAudit",
        "GatewayProxy",
    ]

    /// Modules that are not the gateway's.
    static let others: [String: Set<String>] = [
        "GatewayHTTP": ["FoundationEssentials", "Synchronization"],
        "GatewayEvents": [],
        "GatewayFiles": ["GRDB", "GRDBSQLite", "CPostgreSQL", "Dispatch", "Synchronization"] + foundation + platform,
        "GatewayConfiguration": ["CLibYAML"],
        "GatewayTokens": ["ServiceLifecycle", "Logging", "Metrics", "Synchronization"],
        "GatewayTesting": ["Synchronization"] + foundation,
        "GatewayStrategies": ["Crypto", "CryptoExtras"],
        "GatewayTokenClient": adapter + ["NIOHTTP1", "NIOHTTPCompression"] + nio,
        "GatewayTokenStores": adapter + ["GRDB", "Crypto"],
        "GatewayAudit": adapter + ["GRDB", "Crypto"],
        "GatewayProxy": ["FoundationEssentials", "Logging", "Synchronization"] + nio + platform,
        "GatewayLocalAuthority": ["Crypto", "X509", "SwiftASN1", "Synchronization"] + foundation + platform,
        "GatewaySandbox": adapter + [
            "Hummingbird", "HummingbirdCore", "HTTPTypes", "NIOCore", "NIOHTTPTypes", "Crypto", "CryptoExtras",
            "ServiceLifecycle",
        ],
        "GatewayApp": adapter + nio + platform + [
            "Hummingbird", "HummingbirdCore", "HTTPTypes", "Crypto", "NIOHTTP1", "ServiceLifecycle", "UnixSignals",
            "Metrics", "CPresets", "CBuildRecord",
        ],
        "GatewayTools": adapter + nio + platform + [
            "ArgumentParser", "AsyncHTTPClient", "Crypto", "NIOHTTP1", "ServiceLifecycle", "UnixSignals", "Metrics",
            "CPresets",
        ],
        "authgateway": [],
    ]

    static func allows(_ module: String, in target: String) -> Bool {
        guard let place = order.firstIndex(of: target) else { return false }
        if others[target]?.contains(module) == true { return true }
        // The program knows the runtime alone.
        if target == "authgateway" { return module == "GatewayTools" }
        let isSibling = siblings.contains(target) && siblings.contains(module)
        return order[..<place].contains(module) && !isSibling && module != "GatewayTesting"
    }

    private static let adapter: Set = ["Logging", "Synchronization", "Foundation", "FoundationEssentials"]
    private static let nio: Set = ["NIOCore", "NIOPosix", "NIOSSL", "NIOTLS", "NIOConcurrencyHelpers"]
    private static let foundation: Set = ["Foundation", "FoundationEssentials"]
    /// The C library, under the names that the platforms give it.
    private static let platform: Set = ["Glibc", "Musl", "Darwin"]
}

/// Which files act: with a clock, a task, a lock, a logger, a socket or a library. Every other file of these targets is pure: it imports
/// none of that, and names no type that one of the acting files declares.
enum ImpureFiles {
    /// Where the rule holds: the targets below GatewayApp that decide, and the rules there.
    private static let scope = [
        "GatewayHTTP/", "GatewayEvents/", "GatewayConfiguration/", "GatewayTokens/", "GatewayStrategies/",
        "GatewayAudit/", "GatewayProxy/",
        "GatewayApp/Doctor/", "GatewayApp/Explain/", "GatewayApp/Page/", "GatewayApp/Plan/", "GatewayApp/Schema/",
    ]

    /// A folder stands for all of its files. The list shrinks, or stays as it is.
    static let acting = [
        "GatewayApp/Plan/CredentialSources.swift",
        "GatewayApp/Plan/LivePlan.swift",
        "GatewayApp/Plan/PlanExpirations.swift",
        "GatewayAudit/AuditAppender.swift",
        "GatewayAudit/AuditChain.swift",
        "GatewayAudit/AuditFile.swift",
        "GatewayAudit/AuditFilter.swift",
        "GatewayAudit/AuditFollow.swift",
        "GatewayAudit/AuditHead.swift",
        "GatewayAudit/AuditNotes.swift",
        "GatewayAudit/AuditOpening.swift",
        "GatewayAudit/AuditReader.swift",
        "GatewayAudit/AuditSelection.swift",
        "GatewayAudit/AuditShipment.swift",
        "GatewayAudit/AuditShipper.swift",
        "GatewayAudit/AuditStats.swift",
        "GatewayAudit/AuditTally.swift",
        "GatewayAudit/AuditVerification.swift",
        "GatewayAudit/AuditVerifier.swift",
        "GatewayAudit/ConfirmedAuditLog.swift",
        "GatewayAudit/SQLiteAuditLog",
        "GatewayAudit/SharedAuditReader.swift",
        "GatewayProxy/Access/AuthorizationExchange.swift",
        "GatewayProxy/Exchange/ClientStream.swift",
        "GatewayProxy/Exchange/ExchangeDriver.swift",
        "GatewayProxy/Exchange/UpstreamStream.swift",
        "GatewayProxy/Explain/RequestJudge.swift",
        "GatewayProxy/HTTP1/",
        "GatewayProxy/HTTP2/",
        "GatewayProxy/Listen/",
        "GatewayProxy/ProxyServer.swift",
        "GatewayProxy/Routing/CompiledRoute.swift",
        "GatewayProxy/Routing/CredentialedRoute.swift",
        "GatewayProxy/Routing/UnroutedRoute.swift",
        "GatewayProxy/Tunnel/ConnectTunnel.swift",
        "GatewayProxy/Tunnel/InterceptionTLS.swift",
        "GatewayProxy/Tunnel/TLSHello.swift",
        "GatewayProxy/Tunnel/TunnelEnd.swift",
        "GatewayProxy/Upstream/ConnectionBudget.swift",
        "GatewayProxy/Upstream/Dialer.swift",
        "GatewayProxy/Upstream/NameLookup.swift",
        "GatewayProxy/Upstream/ParentHop.swift",
        "GatewayProxy/Upstream/UnroutedResolver.swift",
        "GatewayProxy/Upstream/UpstreamFailure.swift",
        "GatewayProxy/Upstream/UpstreamPool.swift",
        "GatewayProxy/Upstream/UpstreamProbe.swift",
        "GatewayProxy/Upstream/UpstreamResolver.swift",
        "GatewayProxy/Upstream/UpstreamTLSContexts.swift",
        "GatewayProxy/Upstream/UpstreamTarget.swift",
        "GatewayProxy/Worker/",
        "GatewayTokens/Keeper/",
    ]

    /// Files with a lock, a counter, or the tables and rows of a database, whose types pure files may use.
    static let counting = [
        "GatewayApp/Plan/PresetText.swift",
        "GatewayAudit/AuditRow.swift",
        "GatewayAudit/AuditSchema.swift",
        "GatewayConfiguration/YAML/",
        "GatewayHTTP/Time/Promise.swift",
        "GatewayProxy/Access/ClientJWTVerifier.swift",
        "GatewayProxy/Access/ClientKeySets.swift",
        "GatewayProxy/Access/ClientTokenUses.swift",
        "GatewayProxy/Access/ClientUsage.swift",
        "GatewayProxy/Access/RunTokens.swift",
        "GatewayProxy/Exchange/UploadMemory.swift",
        "GatewayProxy/Listen/ConnectionsPerAddress.swift",
        "GatewayProxy/Listen/UnfinishedHeads.swift",
        "GatewayProxy/Upstream/FairShare.swift",
        "GatewayProxy/Upstream/SparseCounts.swift",
        "GatewayTokens/Credentials/ChallengeCredentialSource.swift",
        "GatewayTokens/Credentials/ChallengeTokenCredentials.swift",
        "GatewayTokens/Credentials/Credential.swift",
        "GatewayTokens/Credentials/FixedCredentialSource.swift",
        "GatewayTokens/Credentials/SigningSessions.swift",
        "GatewayTokens/Rejections/RejectionRecord.swift",
    ]

    static func covers(_ path: String) -> Bool { scope.contains { path.hasPrefix($0) } }
    static func counts(_ path: String) -> Bool { counting.contains { path.hasPrefix($0) } }
    static func acts(_ path: String) -> Bool { acting.contains { path.hasPrefix($0) } && !counts(path) }

    /// A pure file may encode: FoundationEssentials has JSON and base64. Strategies sign.
    static let pureModules: Set = ["FoundationEssentials", "Crypto", "CryptoExtras"]
}

private func + (left: Set<String>, right: Set<String>) -> Set<String> { left.union(right) }
