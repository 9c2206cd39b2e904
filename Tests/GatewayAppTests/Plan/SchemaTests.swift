import Foundation
import GatewayStrategies
import Testing

@testable import GatewayApp
@testable import GatewayConfiguration
@testable import GatewayHTTP
@testable import GatewayTokens

/// The JSON Schema is what the decoders ask for, and the file in the repository is that.
///
/// After a change of the configuration's keys run `make schema` and read the difference.
@Suite("Schema", .timeLimit(.minutes(5)))
struct SchemaTests {
    private static let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "schema/gateway.schema.json")

    private static let made = ConfigSchema.text(.builtIn)
    private var text: String { Self.made }

    @Test func theFileIsCurrent() throws {
        if ProcessInfo.processInfo.environment["UPDATE_EXPECTED"] != nil {
            let folder = Self.file.deletingLastPathComponent()
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try text.write(to: Self.file, atomically: true, encoding: .utf8)
        }
        let committed = try String(contentsOf: Self.file, encoding: .utf8)
        // Not compared by the macro, whose report of two long texts takes minutes.
        let isCurrent = committed == text
        #expect(isCurrent, "make schema writes schema/gateway.schema.json")
    }

    @Test(arguments: StrategyCatalog.builtIn.kinds)
    func everyKeyThatAStrategyReadsIsInIt(_ kind: String) throws {
        let document = try #require(JSONValue(Array(text.utf8)))
        let properties = try #require(document["$defs"]?["strategy.\(kind)"]?["properties"])
        let type = try #require(StrategyCatalog.builtIn.strategy(named: kind))
        let recorder = KeyRecorder()
        let span = SourceSpan(file: 0, line: 1, column: 1)
        let node = ConfigNode(.mapping([]), at: span)
        let file = ConfigDocument.File(name: "", path: "/gateway.yaml", lines: [])
        let context = ConfigContext(
            document: ConfigDocument(files: [file], root: node),
            secrets: ProbeSecrets(),
            recorder: recorder
        )
        _ = ConfigFields(node, path: .root, context: context).flatMap { type.read(from: $0) }
        for key in recorder.root.children.keys where key != "strategy" {
            #expect(properties[key] != nil, "\(kind): \(key)")
        }
    }

    @Test(arguments: StrategyCatalog.builtIn.kinds)
    func whatSendsRequestsTakesAProxyAndNothingElse(_ kind: String) throws {
        let silent: Set = ["basic", "bearer", "digest", "exec", "header", "hmac", "jwt", "none"]
        let document = try #require(JSONValue(Array(text.utf8)))
        let properties = try #require(document["$defs"]?["strategy.\(kind)"]?["properties"])
        #expect((properties["proxy"] != nil) == !silent.contains(kind))
    }

    /// Names that people choose are asked for with a made-up one.
    @Test func noMadeUpNameIsInIt() { #expect(!text.contains("\"\(SchemaProbe.name)\"")) }

    @Test func whatARecipeKeepsMayStandInInitial() throws {
        let document = try #require(JSONValue(Array(text.utf8)))
        let initial = try #require(document["$defs"]?["strategy.recipe"]?["properties"]?["initial"])
        #expect(initial["properties"]?["token"] != nil)
        #expect(initial["additionalProperties"]?["$ref"]?.string == "#/$defs/secret")
    }

    /// Keys that are only read when others are there.
    @Test(arguments: [
        ("access.clients.*", ["certificate", "jwt", "limits", "token", "token_sha256"]),
        ("access.clients.*.certificate", ["dns", "uri"]),
        ("access.clients.*.jwt", ["audience", "claims", "issuer", "jwks", "subject"]),
        ("access.clients.*.jwt.jwks", ["file", "url"]),
        ("listeners.admin", ["address", "allow_users", "require_token", "tls", "unix", "users"]),
        ("listeners.admin.users.*", ["certificate", "role", "token", "token_sha256"]),
        ("access.clients.*.limits", ["concurrent", "per_second"]),
        ("listeners.proxy[]", ["address", "allow_users", "tls", "unix"]),
        ("routes.*", ["allow", "auth", "clients", "headers", "match", "tls", "upstream"]),
        ("routes.*", ["connection_auth", "cookies"]),
        ("routes.*.headers", ["forwarded", "remove", "set"]),
        ("listeners.proxy[].tls", ["ca", "certificate", "client_ca", "private_key"]),
    ])
    func whatIsReadOnConditionIsFound(_ path: String, _ keys: [String]) throws {
        var node = try #require(JSONValue(Array(text.utf8)))
        for part in path.split(separator: ".") {
            let isElement = part.hasSuffix("[]")
            let key = isElement ? String(part.dropLast(2)) : String(part)
            let next = key == "*" ? node["additionalProperties"] : node["properties"]?[key]
            node = try #require(next)
            if isElement { node = try #require(node["items"]) }
        }
        for key in keys { #expect(node["properties"]?[key] != nil, "\(path): \(key)") }
    }
}
