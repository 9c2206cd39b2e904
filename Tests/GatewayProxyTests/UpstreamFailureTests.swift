import GatewayHTTP
import NIOCore
import NIOSSL
import Testing

@testable import GatewayProxy

@Suite("What a failed connection is called", .timeLimit(.minutes(5)))
struct UpstreamFailureTests {
    private static let origin = Origin(scheme: .https, host: "api.example.com", port: 443)

    private static func reason(_ error: any Error, isUnresolved: Bool = false) -> String {
        FailureReason(UpstreamFailure.problem(error, origin, isUnresolved: isUnresolved)).description
    }

    @Test func theReasonsOfTLSAreToldApart() {
        #expect(Self.reason(PeerNameMismatch()) == "certificate_names_other_host")
        #expect(Self.reason(NIOSSLExtraError.failedToValidateHostname) == "certificate_names_other_host")
        #expect(Self.reason(NIOSSLError.unableToValidateCertificate) == "certificate_untrusted")
        let eof = NIOSSLError.handshakeFailed(.sslError([.eofDuringHandshake]))
        #expect(Self.reason(eof) == "tls_handshake_failed")
        let problem = UpstreamFailure.problem(eof, Self.origin)
        #expect(problem.detail == "The TLS handshake with https://api.example.com failed: it closed the connection.")
        #expect(problem.proxyStatusError == "tls_protocol_error" && problem.kind == .upstreamUnreachable)
    }

    @Test("tls.ca of the route replaces the authorities of the system, which the text says")
    func theFileOfTheRouteIsNamed() {
        let error = NIOSSLError.unableToValidateCertificate
        let problem = UpstreamFailure.problem(error, Self.origin, authorities: "/etc/gateway/other.pem")
        let text =
            "The certificate of https://api.example.com is not signed by a certificate authority in other.pem (tls.ca of the route), which"
            + " replaces those of the system."
        #expect(problem.detail == text && problem.hopError == .certificateUntrusted)
        let plain = UpstreamFailure.problem(error, Self.origin).detail
        #expect(
            plain.hasSuffix(
                "is not trusted. If your own certificate authority issued it, name that authority in tls.ca of the route."
            )
        )
    }

    @Test func aNameThatTakesLongIsNoConnectionThatDoes() {
        let error = ChannelError.connectTimeout(.seconds(1))
        #expect(Self.reason(error) == "connect_timeout")
        #expect(Self.reason(error, isUnresolved: true) == "name_timeout")
    }
}
