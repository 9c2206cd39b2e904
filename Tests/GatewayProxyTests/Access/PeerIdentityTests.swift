import Testing

@testable import GatewayProxy

@Suite(.timeLimit(.minutes(1)))
struct PeerIdentityTests {
    @Test func aHostNameIsKeptInLowerCaseWithoutADotAtTheEnd() {
        #expect(PeerIdentity.Name(dns: "Edge-1.Example.COM.".utf8) == .dns("edge-1.example.com"))
    }

    @Test func aURIIsKeptAsItIs() {
        #expect(PeerIdentity.Name(uri: "spiffe://example.org/Ns/ci".utf8) == .uri("spiffe://example.org/Ns/ci"))
    }

    @Test(arguments: ["", "a b", "a\u{0}b", "m\u{FC}nchen", String(repeating: "a", count: 2049)])
    func whatNoConfigurationCanNameIsNoName(_ text: String) {
        #expect(PeerIdentity.Name(dns: text.utf8) == nil)
        #expect(PeerIdentity.Name(uri: text.utf8) == nil)
    }

    @Test func aCertificateWithTooManyNamesHasNone() {
        let names = (0...PeerIdentity.maximumNames).map { PeerIdentity.Name.dns("a\($0)") }
        #expect(PeerIdentity(names).names.isEmpty)
        #expect(PeerIdentity(names.dropLast()).names.count == PeerIdentity.maximumNames)
    }

    @Test func aConnectionBehindConnectKeepsThePeer() {
        let peer = PeerIdentity([.dns("ci")])
        let listener = ConnectionContext(reach: .network, port: 8443, intercepts: true).identifying(peer)
        let inner = listener.intercepting(InterceptedOrigin(host: "up.example", port: 443))
        #expect(inner.peer === peer && inner.intercepted != nil && inner.intercepts && inner.port == 8443)
    }

    @Test func theLengthOfANameIsLimited() {
        let longest = [UInt8](repeating: 0x61, count: PeerIdentity.maximumBytes)
        #expect(PeerIdentity.Name(dns: longest) != nil && PeerIdentity.Name(uri: longest) != nil)
        #expect(PeerIdentity.Name(dns: longest + [0x61]) == nil && PeerIdentity.Name(uri: longest + [0x61]) == nil)
    }
}
