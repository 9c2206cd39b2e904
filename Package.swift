// swift-tools-version: 6.2
import PackageDescription

// One settings block for every target: Swift 6 language mode, warnings are errors, unsafe code is marked.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .strictMemorySafety(),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]

func target(
    _ name: String,
    _ dependencies: [Target.Dependency],
    _ settings: [SwiftSetting] = settings
) -> Target {
    .target(name: name, dependencies: dependencies, path: "Sources/\(name)", swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
    let path = "Tests/\(name)"
    return .testTarget(name: name, dependencies: dependencies, path: path, exclude: exclude, swiftSettings: settings)
}

let argumentParser: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let metrics: Target.Dependency = .product(name: "Metrics", package: "swift-metrics")
let crypto: Target.Dependency = .product(name: "Crypto", package: "swift-crypto")
let cryptoExtras: Target.Dependency = .product(name: "CryptoExtras", package: "swift-crypto")
let lifecycle: Target.Dependency = .product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let unixSignals: Target.Dependency = .product(name: "UnixSignals", package: "swift-service-lifecycle")
let grdb: Target.Dependency = .product(name: "GRDB", package: "GRDB.swift")
let sqlite: Target.Dependency = .product(name: "GRDBSQLite", package: "GRDB.swift")
let storage: [Target.Dependency] = ["GatewayFiles", grdb]
let hummingbird: [Target.Dependency] = [
    .product(name: "Hummingbird", package: "hummingbird"),
    .product(name: "HTTPTypes", package: "swift-http-types"),
]
let httpClient: Target.Dependency = .product(name: "AsyncHTTPClient", package: "async-http-client")
let certificates: [Target.Dependency] = [
    .product(name: "X509", package: "swift-certificates"),
    .product(name: "SwiftASN1", package: "swift-asn1"),
]
let nioHTTP1: Target.Dependency = .product(name: "NIOHTTP1", package: "swift-nio")
let nioCompression: Target.Dependency = .product(name: "NIOHTTPCompression", package: "swift-nio-extras")
/// A judge for tests of HTTP/2.
let nioHPACK: Target.Dependency = .product(name: "NIOHPACK", package: "swift-nio-http2")
let nio: [Target.Dependency] = [
    .product(name: "NIOCore", package: "swift-nio"),
    .product(name: "NIOPosix", package: "swift-nio"),
    .product(name: "NIOSSL", package: "swift-nio-ssl"),
    .product(name: "NIOTLS", package: "swift-nio"),
    .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
]

let package = Package(
    name: "AuthGateway",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "authgateway", targets: ["authgateway"])
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-asn1", exact: "1.7.4"),
        .package(url: "https://github.com/apple/swift-certificates", exact: "1.21.1"),
        .package(url: "https://github.com/apple/swift-collections", exact: "1.6.0"),
        .package(url: "https://github.com/apple/swift-crypto", exact: "4.5.2"),
        .package(url: "https://github.com/apple/swift-http-types", exact: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", exact: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras", exact: "1.35.2"),
        .package(url: "https://github.com/apple/swift-nio-http2", exact: "1.46.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", exact: "2.37.6"),
        .package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", exact: "2.28.1"),
        .package(url: "https://github.com/swift-server/async-http-client", exact: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", exact: "2.13.0"),
    ],
    targets: [
        // A target is a concept (docs/internals/architecture.md), the lowest first; each imports earlier ones only.
        target("GatewayHTTP", []),
        target("GatewayEvents", ["GatewayHTTP"]),
        // Compiled with the header of libpq, which is loaded when a configuration needs it (docs/internals/adr/0044).
        .target(name: "CPostgreSQL", path: "Sources/CPostgreSQL"),
        target("GatewayFiles", ["GatewayHTTP", "CPostgreSQL", grdb, sqlite]),
        .systemLibrary(
            name: "CLibYAML",
            path: "Sources/CLibYAML",
            pkgConfig: "yaml-0.1",
            providers: [.apt(["libyaml-dev"]), .brew(["libyaml"])]
        ),
        target("GatewayConfiguration", ["GatewayHTTP", "CLibYAML"]),
        target("GatewayTokens", ["GatewayConfiguration", "GatewayEvents", lifecycle, logging, metrics]),

        // Siblings, which do not know each other.
        target("GatewayStrategies", ["GatewayTokens", crypto, cryptoExtras]),
        target("GatewayTokenClient", ["GatewayTokens", nioHTTP1, nioCompression] + nio),
        target("GatewayTokenStores", ["GatewayTokens", crypto] + storage),
        target("GatewayAudit", ["GatewayTokens", crypto, logging] + storage),
        target("GatewayProxy", ["GatewayTokens", "GatewayFiles", logging] + nio),

        // The gateway's own certificate authority, apart from the proxy that asks it: it brings swift-certificates.
        target("GatewayLocalAuthority", ["GatewayProxy", crypto] + certificates),
        // Local authorities and upstreams for a first run, for demonstrations and for tests.
        target("GatewaySandbox", ["GatewayTokens", crypto, cryptoExtras, lifecycle, logging] + hummingbird + nio),

        // Where the siblings meet: the running gateway, and its admin listener.
        target(
            "GatewayApp",
            [
                "GatewayStrategies", "GatewayTokenClient", "GatewayTokenStores", "GatewayAudit", "GatewayProxy",
                "GatewayLocalAuthority", "CPresets", "CBuildRecord", crypto, nioHTTP1, lifecycle,
                unixSignals,
                logging, metrics,
            ] + hummingbird + nio
        ),
        // The commands, and what only they need.
        target(
            "GatewayTools",
            [
                "GatewayApp", "GatewaySandbox", "CPresets", argumentParser, crypto, httpClient, nioHTTP1, lifecycle,
                unixSignals, logging, metrics,
            ] + nio
        ),
        // The YAML files of the presets, gateway.yaml, sandbox.yaml and schema/keys.json, as bytes of the program.
        .target(name: "CPresets", path: "Sources/CPresets", exclude: ["presets"]),
        // A place in the program that a release build writes its commit and its toolchain to.
        .target(name: "CBuildRecord", path: "Sources/CBuildRecord"),
        // Linked, never imported: it keeps 34 MB of languages and calendars out of the program (docs/internals/adr/0027).
        .target(name: "CICUData", path: "Sources/CICUData"),
        .executableTarget(
            name: "authgateway",
            dependencies: ["GatewayTools", "CICUData"],
            path: "Sources/authgateway",
            swiftSettings: settings
        ),

        // Doubles and conformance kits for tests.
        target("GatewayTesting", ["GatewayTokens"]),

        tests("GatewayHTTPTests", ["GatewayHTTP", "GatewayTesting"]),
        tests("GatewayEventsTests", ["GatewayEvents", "GatewayTesting"]),
        tests("GatewayFilesTests", ["GatewayFiles", "GatewayTesting", grdb]),
        tests("GatewayConfigurationTests", ["GatewayConfiguration", "GatewayTesting"]),
        tests("GatewayTokensTests", ["GatewayTokens", "GatewayTesting", lifecycle, logging]),
        tests("GatewayStrategiesTests", ["GatewayStrategies", "GatewayTesting", crypto, cryptoExtras]),
        tests("GatewayTokenClientTests", ["GatewayTokenClient", "GatewayTesting"] + nio),
        tests("GatewayTokenStoresTests", ["GatewayTokenStores", "GatewayTesting", grdb, crypto]),
        tests("GatewayAuditTests", ["GatewayAudit", "GatewayTesting", grdb, crypto, logging]),
        tests(
            "GatewayProxyTests",
            ["GatewayProxy", "GatewayTesting", nioHPACK, .product(name: "NIOEmbedded", package: "swift-nio")] + nio
        ),
        tests("GatewayLocalAuthorityTests", ["GatewayLocalAuthority", "GatewayTesting", crypto] + certificates),
        tests("GatewaySandboxTests", ["GatewaySandbox", "GatewayTesting", httpClient] + nio),
        tests("GatewayAppTests", ["GatewayApp", "GatewayTesting", httpClient, nioHTTP1, crypto, logging] + nio),
        tests("GatewayToolsTests", ["GatewayTools", "GatewayTesting", logging] + nio),
        tests(
            "DifferentialTests",
            ["GatewayProxy", "GatewayTesting", nioHTTP1, .product(name: "NIOEmbedded", package: "swift-nio")] + nio
        ),
        tests(
            "FuzzerTests",
            ["GatewayAudit", "GatewayApp", grdb, crypto],
            exclude: ["corpus", "corpus.py"]
        ),
        tests(
            "EndToEndTests",
            ["GatewayTools", "GatewayTesting", argumentParser, httpClient, nioHTTP1, logging] + nio
        ),
        tests("ArchitectureTests", []),
    ]
)

// SwiftPM compiles a target again after the interface of another one changed only if the target names that one, but the layout of its types
// may come from further away. So each target names all that it stands on.
let targetsByName = Dictionary(uniqueKeysWithValues: package.targets.map { ($0.name, $0) })
@MainActor func names(below target: Target) -> Set<String> {
    target.dependencies.reduce(into: []) { found, dependency in
        guard case .byNameItem(let name, _) = dependency, let next = targetsByName[name] else { return }
        found.formUnion(names(below: next).union([name]))
    }
}
for (target, all) in package.targets.map({ ($0, names(below: $0)) }) {
    let named = target.dependencies.compactMap { if case .byNameItem(let name, _) = $0 { name } else { nil } }
    target.dependencies += all.subtracting(named).sorted().map { .byName(name: $0) }
}

// Only built when asked for: to use or to test the gateway takes none of it.
if Context.environment["AUTHGATEWAY_BENCHMARKS"] != nil {
    package.targets += [
        .target(name: "CAllocationCount", path: "Benchmarks/Micro/CAllocationCount"),
        .executableTarget(
            name: "GatewayBenchmarks",
            dependencies: ["CAllocationCount", "GatewayProxy", logging] + nio,
            path: "Benchmarks/Micro/GatewayBenchmarks",
            swiftSettings: [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
        ),
        // How often a fleet calls authorization servers: docs/internals/fleet.md.
        .executableTarget(
            name: "GatewayRenewalLoad",
            dependencies: ["GatewayTokens"],
            path: "Benchmarks/Micro/GatewayRenewalLoad",
            swiftSettings: [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
        ),
    ]
}
