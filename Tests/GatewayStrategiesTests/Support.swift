import GatewayConfiguration
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

let now = Moment(
    monotonic: MonotonicTime(nanoseconds: 5_000_000_000),
    wall: UnixTime(seconds: 1_772_357_400)
)

/// Decodes one block through the catalog, as the configuration does.
func decode(_ kind: String, _ block: FixtureNode, _ environment: [String: String] = [:]) throws -> any AuthStrategy {
    let fields = ConfigFields.fixture(block, secrets: FixtureSecrets(environment))
    let type = try #require(StrategyCatalog.builtIn.strategy(named: kind))
    let strategy = type.read(from: fields)
    fields.refuseUnknownKeys()
    #expect(fields.problems == [])
    return try #require(strategy)
}

/// What is wrong with one block, in the words the person who wrote it reads.
func problems(_ kind: String, _ block: FixtureNode, _ environment: [String: String] = [:]) throws -> [String] {
    let fields = ConfigFields.fixture(block, secrets: FixtureSecrets(environment))
    let type = try #require(StrategyCatalog.builtIn.strategy(named: kind))
    let strategy = type.read(from: fields)
    fields.refuseUnknownKeys()
    if strategy != nil { #expect(fields.problems.allSatisfy { $0.contains("unknown key") }) }
    return fields.problems
}

func grant(_ kind: String, _ block: FixtureNode, _ environment: [String: String] = [:]) throws -> any TokenGrant {
    let behavior = try decode(kind, block, environment).behavior
    guard case .token(let grant) = behavior else {
        Issue.record("\(kind) is not a token strategy")
        throw WrongKind()
    }
    return grant
}

func injection(_ kind: String, _ block: FixtureNode) throws -> Injection {
    let behavior = try decode(kind, block).behavior
    guard case .fixed(let injection) = behavior else {
        Issue.record("\(kind) is not a fixed strategy")
        throw WrongKind()
    }
    return injection
}

func request(of step: GrantStep) throws -> TokenRequest {
    guard case .request(let request) = step else {
        Issue.record("no request: \(step)")
        throw WrongKind()
    }
    return request
}

struct WrongKind: Error {}

extension Secret {
    /// The value in the clear, for assertions.
    var text: String { withValue { $0 } }
}

extension TokenRequest {
    /// The request as it would stand on the wire: method and URL, one line per field, the body.
    var wire: String {
        var lines = ["\(method.rawValue) \(url.text)"]
        lines += fields.map { "\($0.name): \($0.value.text)" }
        if case .form(let parameters) = body {
            lines += ["", String(decoding: FormEncoding.encode(parameters), as: UTF8.self)]
        }
        return lines.joined(separator: "\n")
    }
}

extension Injection {
    var wire: [String] {
        fields.map { "\($0.name): \($0.value.text)" } + (query.map { ["?\($0.name)=\($0.value.text)"] } ?? [])
            + (path.map { [$0.value.text] } ?? [])
    }
}

extension TokenReply {
    init(_ status: Int, _ body: String, _ fields: [String: String] = [:]) {
        self.init(
            status: status,
            fields: fields.map { TokenReply.Field(name: $0.key, value: $0.value) },
            body: Array(body.utf8)
        )
    }
}

extension Result where Success == TokenSet, Failure == TokenFailure {
    var failure: TokenFailure? {
        guard case .failure(let failure) = self else { return nil }
        return failure
    }
}

/// A JWT with this payload and a signature that nobody checks.
func jwt(_ payload: String) -> String {
    func url(_ text: String) -> String {
        Base64.encode(text.utf8).filter { $0 != "=" }.replacing("+", with: "-").replacing("/", with: "_")
    }
    return "\(url(#"{"alg":"none"}"#)).\(url(payload)).c2ln"
}
