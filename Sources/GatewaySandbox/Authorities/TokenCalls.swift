import GatewayHTTP
import GatewayTokens
import HTTPTypes
import Hummingbird

/// What an authority says to one token call.
enum TokenAnswer: Sendable {
    /// The members of the answer, inside a member called `envelope` if there is one.
    case granted([(String, JSON)], envelope: String? = nil)
    case refused(Response)
}

/// Carries a token call through the switches of its origin: delay, failure, lost connection, odd members.
struct TokenCalls: Sendable {
    static let bodyLimit = 64 * 1024

    let world: World
    let origin: OriginName

    /// `decide` runs once, in one step with its effects; not at all when a switch makes the call fail.
    func answer(
        grant: String,
        client: String,
        context: SandboxContext,
        decide: @Sendable (inout WorldState, _ now: Int64, Switches.TokenCall) -> TokenAnswer
    ) async throws -> Response {
        let call = world.withState { state, _ in
            state.counters.tokenCallBegan(grant: grant, client: client, at: origin)
            return state.switches[origin, default: Switches()].takeTokenCall()
        }
        defer { world.withState { state, _ in state.counters.tokenCallEnded() } }
        if call.delay > 0 { try await Task.sleep(for: .milliseconds(call.delay)) }
        if call.drop == .beforeCommit { return try await context.cut() }
        if let failure = call.failure { return Self.response(to: failure) }
        let answer = world.withState { state, now in decide(&state, now, call) }
        if call.drop == .afterCommit { return try await context.cut() }
        switch answer {
        case .refused(let response):
            return response
        case .granted(let members, let envelope):
            let members = Self.edit(members, as: call)
            return .json(
                envelope.map { .object([($0, .object(members))]) } ?? .object(members),
                fields: [.cacheControl: "no-store"]
            )
        }
    }

    private static func response(to failure: Switches.TokenCall.Failure) -> Response {
        var fields = HTTPFields()
        fields[.retryAfter] = failure.retryAfter
        let status = HTTPResponse.Status(code: failure.status)
        guard let body = failure.body else {
            return .oauthError(failure.error, failure.description, status: status, fields: fields)
        }
        return .text(body, type: failure.contentType, status: status, fields: fields)
    }

    private static func edit(_ members: [(String, JSON)], as call: Switches.TokenCall) -> [(String, JSON)] {
        var edited = members.filter { !call.omitted.contains($0.0) }
        for (name, value) in call.members.sorted(by: { $0.key < $1.key }) {
            if let index = edited.firstIndex(where: { $0.0 == name }) {
                edited[index].1 = JSON(value)
            } else {
                edited.append((name, JSON(value)))
            }
        }
        return edited
    }

    /// The form of a request; nil when it does not carry one.
    static func form(of request: Request) async throws -> Form? {
        let body = try await request.body.collect(upTo: bodyLimit)
        let type = request.headers[.contentType]?.split(separator: ";").first?.lowercased()
        guard type == "application/x-www-form-urlencoded" else { return nil }
        return Form(Array(body.readableBytesView))
    }
}

/// The fields of an `application/x-www-form-urlencoded` body, read strictly.
///
/// A field without a value counts as absent and a repeated one is an error (RFC 6749 §3.2). A lenient reader would
/// hide the client that leaves `+`, `&` or `%` of a secret unescaped.
struct Form: Sendable {
    private let fields: [String: String]

    /// nil when `bytes` is not a form, or names a field twice.
    init?(_ bytes: some Collection<UInt8>) {
        var fields: [String: String] = [:]
        for pair in bytes.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: true) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let name = Self.decode(parts[0]), let value = Self.decode(parts[1]) else {
                return nil
            }
            guard !name.isEmpty, fields[name] == nil else { return nil }
            fields[name] = value
        }
        self.fields = fields
    }

    subscript(name: String) -> String? { fields[name].flatMap { $0.isEmpty ? nil : $0 } }

    /// Undoes form encoding; nil when a byte stands there that must be escaped, or an escape is broken.
    static func decode(_ bytes: some Collection<UInt8>) -> String? {
        bytes.allSatisfy(isFormByte) ? FormEncoding.decode(bytes) : nil
    }

    private static func isFormByte(_ byte: UInt8) -> Bool {
        (0x21...0x7E).contains(byte) && byte != UInt8(ascii: "=") && byte != UInt8(ascii: "&")
    }
}
