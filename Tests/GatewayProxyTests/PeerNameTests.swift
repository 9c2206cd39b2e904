import Testing

@testable import GatewayProxy

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
}
