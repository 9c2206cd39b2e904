import GatewayHTTP
import Testing

@Suite("Alerts of TLS", .timeLimit(.minutes(5)))
struct TLSAlertTests {
    private func alert(_ word: String) -> TLSAlert? {
        TLSAlert(
            in: "sslError([Error: 1 error:10000000:SSL routines:OPENSSL_internal:\(word) at /ssl/tls_record.cc:592])"
        )
    }

    @Test(
        "a received alert has the name of RFC 8446",
        arguments: [
            ("TLSV1_ALERT_CERTIFICATE_REQUIRED", "certificate_required"), ("TLSV1_ALERT_UNKNOWN_CA", "unknown_ca"),
            ("SSLV3_ALERT_HANDSHAKE_FAILURE", "handshake_failure"),
            ("TLSV1_ALERT_PROTOCOL_VERSION", "protocol_version"),
            ("SSLV3_ALERT_BAD_CERTIFICATE", "bad_certificate"),
        ]
    )
    func aReceivedAlertIsNamed(_ word: String, _ name: String) {
        #expect(alert(word)?.name == name)
    }

    @Test(arguments: ["WRONG_VERSION_NUMBER", "CERTIFICATE_VERIFY_FAILED", "TLSV1_ALERT_", "", "TLSV1_ALERT_\(long)"])
    func whatThisEndFoundIsNoAlert(_ word: String) {
        #expect(alert(word) == nil)
    }

    private static let long = String(repeating: "A", count: 64)

    @Test func anyOtherTextIsNoAlert() {
        #expect(TLSAlert(in: "uncleanShutdown") == nil)
        #expect(TLSAlert(in: "") == nil)
    }

    @Test func theTextNamesServerAlertAndKey() {
        #expect(
            alert("TLSV1_ALERT_CERTIFICATE_REQUIRED")?.detail(of: "https://api.example", owner: "the route")
                == "https://api.example refused the TLS connection with the alert certificate_required. "
                + "It wants a client certificate (tls.certificate of the route)."
        )
        #expect(
            alert("TLSV1_ALERT_INTERNAL_ERROR")?.detail(of: "https://api.example", owner: "the route")
                == "https://api.example refused the TLS connection with the alert internal_error."
        )
    }
}
