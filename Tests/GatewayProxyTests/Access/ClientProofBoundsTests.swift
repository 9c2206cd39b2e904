import Synchronization
import Testing

@testable import GatewayHTTP
@testable import GatewayProxy
@testable import GatewayTokens

/// Limits on what clients present and on what the gateway remembers of it.
@Suite("Bounds of what proves a client", .timeLimit(.minutes(1)))
struct ClientProofBoundsTests {
    private static func keySet(_ count: Int, bytes: Int = 0) -> JSONWebKeySet? {
        let (x, y) = (Base64.encodeURL([UInt8](repeating: 1, count: 32)), Base64.encodeURL([UInt8](0..<32)))
        let keys = (0..<count).map { #"{"kty":"EC","crv":"P-256","kid":"k\#($0)","x":"\#(x)","y":"\#(y)"}"# }
        let text = #"{"keys":[\#(keys.joined(separator: ","))]}"#
        return JSONWebKeySet(Array((text + String(repeating: " ", count: max(0, bytes - text.utf8.count))).utf8))
    }

    @Test func theNumberOfKeysInAKeySetIsLimited() {
        #expect(Self.keySet(JSONWebKeySet.maximumKeys)?.keys.count == JSONWebKeySet.maximumKeys)
        #expect(Self.keySet(JSONWebKeySet.maximumKeys + 1) == nil)
    }

    @Test func theSizeOfAKeySetIsLimited() {
        #expect(Self.keySet(1, bytes: JSONWebKeySet.maximumBytes)?.keys.count == 1)
        #expect(Self.keySet(1, bytes: JSONWebKeySet.maximumBytes + 1) == nil)
    }

    // MARK: Tokens

    private static let now = UnixTime(seconds: 1_000_000)
    private static let head = Base64.encodeURL(#"{"alg":"ES256"}"#.utf8)
    private static let claims = #"{"iss":"i","aud":"g","sub":"ci","exp":1000600"#

    /// - Parameter number: Tells tokens apart by their signatures.
    private static func token(_ number: Int = 0, padding: Int = 0, signature: Int = 4) -> [UInt8] {
        let padded = padding == 0 ? claims + "}" : claims + #","p":"\#(String(repeating: "x", count: padding))"}"#
        let code = (0..<signature).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
        return Array("\(head).\(Base64.encodeURL(padded.utf8)).\(Base64.encodeURL(code))".utf8)
    }

    private static func token(ofBytes count: Int) -> [UInt8]? {
        for padding in (count / 4 * 3 - 100)...(count / 4 * 3) {
            for signature in 4...6 where token(padding: padding, signature: signature).count == count {
                return token(padding: padding, signature: signature)
            }
        }
        return nil
    }

    @Test func theSizeOfASignedTokenIsLimited() throws {
        let longest = try #require(Self.token(ofBytes: SignedJWT.maximumBytes))
        let longer = try #require(Self.token(ofBytes: SignedJWT.maximumBytes + 1))
        #expect(SignedJWT(longest) != nil)
        #expect(SignedJWT(longer) == nil)
    }

    private final class Signatures: Sendable {
        private let seen = Atomic<Int>(0)
        var count: Int { seen.load(ordering: .relaxed) }
        func note() { seen.add(1, ordering: .relaxed) }
    }

    @Test func theNumberOfVerifiedTokensInMemoryIsLimited() throws {
        let signatures = Signatures()
        let parts = ClientJWTParts(
            keySets: ClientKeySets(),
            verify: { _, _, _, _ in
                signatures.note()
                return true
            },
            now: { Self.now }
        )
        let keys = try #require(Self.keySet(1))
        let plan = ClientJWTPlan(issuer: "i", audience: "g", keys: .set(keys), subject: "ci", claims: [:])
        let client = AccessPlan.Client(name: "ci", tokens: [], jwt: plan)
        let made = ClientJWTVerifier([client], parts) { Array($0.suffix(8)) }
        let verifier = try #require(made)
        for number in 0..<ClientJWTVerifier.capacity { _ = verifier.result(for: Self.token(number)) }
        #expect(signatures.count == ClientJWTVerifier.capacity)
        for number in [0, 1, ClientJWTVerifier.capacity - 1] {
            #expect(verifier.result(for: Self.token(number)) != nil)
        }
        #expect(signatures.count == ClientJWTVerifier.capacity, "they are kept")
        #expect(verifier.result(for: Self.token(ClientJWTVerifier.capacity)) != nil)
        #expect(verifier.result(for: Self.token(0)) != nil, "it is verified anew")
        #expect(signatures.count == ClientJWTVerifier.capacity + 2)
    }

    // MARK: Connections

    private static func isKept(_ count: Int, _ validity: ClientJWTVerifier.Validity? = nil) -> Bool {
        var cache = ClientAuthenticationCache()
        cache.keep("earlier", proof: [1, 2, 3])
        let proof = [UInt8](repeating: 7, count: count)
        cache.keep("ci", proof: proof, validity: validity)
        let earlier: [UInt8] = [1, 2, 3]
        let earlierName = cache.name(proving: earlier.span, 0..<3)
        let name = cache.name(proving: proof.span, 0..<count)
        #expect(earlierName == nil)
        #expect((cache.validity != nil) == (validity != nil && name != nil))
        return name == "ci"
    }

    @Test func aConnectionRemembersOnlyShortProofs() {
        #expect(Self.isKept(ClientAuthenticationCache.longest))
        #expect(!Self.isKept(ClientAuthenticationCache.longest + 1))
    }

    @Test func aConnectionRemembersLongerSignedTokens() {
        let validity = ClientJWTVerifier.Validity(end: Self.now, generation: 1)
        #expect(Self.isKept(ClientAuthenticationCache.longestSigned, validity))
        #expect(!Self.isKept(ClientAuthenticationCache.longestSigned + 1, validity))
    }

    // MARK: Uses of tokens

    @Test func usesOfRemovedTokensAreForgottenEventually() {
        let uses = ClientTokenUses()
        func reload(_ names: Range<Int>) { _ = uses.marks(of: names.map { ("c\($0)", [Array("t\($0)".utf8)]) }) }
        func lastUse(of number: Int) -> String? {
            let client = AccessPlan.Client(name: "c\(number)", tokens: [.token(Secret("t\(number)"))])
            return uses.report(on: [client], at: UnixTime(seconds: 9)) { $0 }[0].lastUsedAt
        }
        let old = ClientTokenUses.spare + 1
        for mark in uses.marks(of: (0..<old).map { ("c\($0)", [Array("t\($0)".utf8)]) }).joined() { mark.note() }
        uses.look(at: UnixTime(seconds: 1))
        // The configuration names one token, so there is room for twice one plus the spare entries.
        reload(old..<(old + 1))
        #expect(lastUse(of: 0) != nil)
        reload((old + 1)..<(old + 2))
        #expect(lastUse(of: 0) != nil, "there were as many as there is room for")
        reload((old + 1)..<(old + 2))
        #expect(lastUse(of: 0) == nil, "there was one more")
    }

    // MARK: Engines

    @Test func theNumberOfPaidGenerationsIsLimited() {
        var budget = EngineRenewalBudget()
        let (paid, burst) = (EngineRenewalBudget.maximumPaid, EngineRenewalBudget.burst)
        var now = MonotonicTime(nanoseconds: 0)
        func spends(_ generation: Int) -> Bool { budget.spend("box", generation: generation, at: now) == .granted }
        for generation in 1...paid {
            if generation > burst { now = now + EngineRenewalBudget.interval }
            #expect(spends(generation))
        }
        for generation in 1...paid { #expect(spends(generation), "it is paid for") }
        #expect(!spends(paid + 1))
        now = now + EngineRenewalBudget.interval
        #expect(spends(paid + 1))
        #expect(!spends(1), "the oldest has left its place")
        for generation in 2...(paid + 1) { #expect(spends(generation)) }
    }

    @Test func theNumberOfDigitsInAGenerationIsLimited() {
        let source = FixedCredentialSource(name: "box", strategy: "bearer", injection: Injection())
        let mark = GenerationMark(engine: "edge") { bytes in (0..<16).map { bytes[$0 % bytes.count] } }
        func isKnown(_ generation: Int) -> Bool {
            let credential = Credential(name: "box", generation: generation, injection: Injection())
            let value = Array(mark.value(of: credential, from: source).utf8)
            return mark.rejected(in: value.span, value.indices, from: source)?.generation == generation
        }
        let longest = Int(String(repeating: "9", count: GenerationMark.maximumDigits)) ?? 0
        #expect(isKnown(longest))
        #expect(!isKnown(longest + 1))
        #expect(!isKnown(Int.max))
    }
}
