import Testing

@testable import GatewayHTTP

@Suite("Peer name", .timeLimit(.minutes(5)))
struct PeerNameTests {
    @Test(arguments: [
        ("api.example.com", "api.example.com"), ("API.example.com.", "api.EXAMPLE.com"),
        ("api.example.com", "*.example.com"),
    ])
    func itsOwnNameIsAccepted(_ name: String, _ pattern: String) {
        #expect(PeerName(name).matches(Array(pattern.utf8)))
    }

    @Test(arguments: [
        ("api.example.com", "example.com"), ("api.example.com", "*.com"), ("a.api.example.com", "*.example.com"),
        ("example.com", "*.com"), ("api.example.com", "a*.example.com"), ("api.example.com", "*"),
        ("api.example.com", ""), ("api.example.com", "api.example.com.evil"), ("api.example.com", "api.*.com"),
    ])
    func anotherNameIsNot(_ name: String, _ pattern: String) {
        #expect(!PeerName(name).matches(Array(pattern.utf8)))
    }

    private static let names: [PeerName.Alternative] = [
        .other, .name(Array("10.0.0.1".utf8)), .name(Array("a.example".utf8)), .address([10, 0, 0, 2]),
        .address(Array(repeating: 0, count: 15) + [1]),
    ]

    @Test(arguments: [
        ("a.example", true), ("b.example", false), ("10.0.0.2", true), ("::1", true), ("10.0.0.1", false),
        ("::2", false),
        ("fe80::1%eth0", false),
    ])
    func anAddressIsNoName(_ name: String, _ isNamed: Bool) {
        #expect(PeerName(name).isNamed(by: Self.names) == isNamed)
    }

    /// The library has compared the common name, which is never an address.
    @Test(arguments: [("a.example", true), ("10.0.0.2", false), ("fe80::1%eth0", false)])
    func aCertificateWithoutNamesIsOnlyForAName(_ name: String, _ isNamed: Bool) {
        #expect(PeerName(name).isNamed(by: []) == isNamed)
        #expect(!PeerName(name).isNamed(by: [.other]))
    }
}
