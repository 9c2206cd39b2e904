import GatewayHTTP
import GatewayTesting
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import Testing

@testable import GatewayProxy

@Suite("TLS in place of upstreams", .timeLimit(.minutes(1)))
struct InterceptionTLSTests {
    /// Returns the same certificate for every host and counts the calls.
    private final class Authority: LeafAuthority {
        let generation = 1
        private let asked = Mutex(0)
        private let chain: [[UInt8]]
        var count: Int { asked.withLock { $0 } }

        init() throws {
            chain = [try NIOSSLCertificate(bytes: Array(TLSListenerTests.certificate.utf8), format: .pem).toDERBytes()]
        }

        func leaf(for host: String) -> LeafCertificate {
            asked.withLock { $0 += 1 }
            let end = UnixTime(seconds: 4_000_000_000)
            return LeafCertificate(chain: chain, privateKey: Secret(TLSListenerTests.key), renewsAt: end)
        }
    }

    @Test func theLeastRecentlyUsedHostIsEvicted() async throws {
        let authority = try Authority()
        let contexts = InterceptionTLS(authority: authority, clock: ManualClock())
        let loop = MultiThreadedEventLoopGroup.singleton.any()
        func ask(_ hosts: Int...) async throws {
            for host in hosts { _ = try await contexts.context(for: "h\(host).example", on: loop).get() }
        }
        let most = InterceptionTLS.capacity
        for host in 0..<most { try await ask(host) }
        try await ask(0, most - 1)
        #expect(authority.count == most, "as many as there is room for are kept")
        try await ask(most)
        try await ask(0, 2, most - 1, most)
        #expect(authority.count == most + 1, "all but one are kept")
        try await ask(1)
        #expect(authority.count == most + 2, "it had made room")
        try await ask(0, 2, most - 1, most)
        #expect(authority.count == most + 2)
        try await ask(3)
        #expect(authority.count == most + 3, "it was the next")
    }
}
