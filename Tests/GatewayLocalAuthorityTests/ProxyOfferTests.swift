import Testing

@testable import GatewayHTTP
@testable import GatewayLocalAuthority

@Suite("Proxy offer", .timeLimit(.minutes(1)))
struct ProxyOfferTests {
    private func endpoint(_ host: String, _ port: Int, isTLS: Bool = false, intercepts: Bool = true) -> ProxyEndpoint {
        ProxyEndpoint(host: host, port: port, isTLS: isTLS, intercepts: intercepts, requiresClientToken: false)
    }

    @Test func aPlainInterceptingListenerOnLoopbackIsTaken() {
        let all = [
            endpoint("10.0.0.1", 1), endpoint("127.0.0.1", 2, intercepts: false), endpoint("127.0.0.1", 3, isTLS: true),
            endpoint("0.0.0.0", 4), endpoint("::1", 5),
        ]
        #expect(ProxyOffer(endpoints: all).choice == .endpoint(all[3]))
        var tunnelling = all[4]
        tunnelling.tunnelsUnrouted = true
        #expect(ProxyOffer(endpoints: all + [tunnelling]).choice == .endpoint(tunnelling))
        #expect(all[3].url() == "http://127.0.0.1:4" && all[4].url(user: "a:b") == "http://a:b@[::1]:5")
        guard case .none(let advice) = ProxyOffer(endpoints: Array(all.prefix(2))).choice else {
            Issue.record("an endpoint that cannot be used was taken")
            return
        }
        #expect(advice.hasPrefix("no listener on loopback accepts CONNECT") && advice.contains("intercept: true"))
        guard case .none(let other) = ProxyOffer(endpoints: [all[2]]).choice else {
            Issue.record("a listener with TLS was taken")
            return
        }
        #expect(other.contains("has tls"))
    }

    @Test func aProgramOfAnotherMachineNeedsTLS() {
        let all = [
            endpoint("127.0.0.1", 1, isTLS: true), endpoint("10.0.0.1", 2),
            endpoint("10.0.0.1", 3, isTLS: true, intercepts: false),
            endpoint("10.0.0.1", 4, isTLS: true), endpoint("0.0.0.0", 5, isTLS: true),
        ]
        #expect(ProxyOffer(endpoints: all).choice(at: "gateway.example") == .endpoint(all[3]))
        var tunnelling = all[4]
        tunnelling.tunnelsUnrouted = true
        var named = tunnelling
        named.host = "gateway.example"
        #expect(ProxyOffer(endpoints: all + [tunnelling]).choice(at: "gateway.example") == .endpoint(named))
        #expect(named.url(user: "a:b") == "https://a:b@gateway.example:5")
        guard case .none(let reason) = ProxyOffer(endpoints: Array(all.prefix(3))).choice(at: "gateway.example") else {
            Issue.record("an endpoint that cannot be used was taken")
            return
        }
        #expect(reason.contains("intercept: true and tls"))
    }

    @Test func thePACNamesOriginsOfRoutesAlone() {
        let offer = ProxyOffer(
            endpoints: [endpoint("127.0.0.1", 8080, intercepts: false), endpoint("127.0.0.1", 8082)],
            origins: [
                "https://api.example", "http://plain.example:8000", "https://[::1]",
                "https://a\"</script>\u{2028}.test",
            ]
        )
        let text = ProxyAutoConfig(offer).text
        #expect(text.contains(#""https://api.example:443": "PROXY 127.0.0.1:8082""#))
        #expect(text.contains(#""http://plain.example:8000": "PROXY 127.0.0.1:8082""#))
        #expect(text.contains(#""https://[::1]:443": "PROXY 127.0.0.1:8082""#))
        #expect(
            !text.contains("</script") && !text.contains("\u{2028}") && text.contains(#"a\"\u003c/script>\u2028.test"#)
        )
        #expect(offer.hosts == ["::1", "api.example", "plain.example"])
    }

    @Test func withoutAnInterceptingListenerHTTPSGoesDirect() {
        let origins = ["https://api.example", "http://plain.example"]
        let plain = ProxyAutoConfig(
            ProxyOffer(endpoints: [endpoint("127.0.0.1", 8080, intercepts: false)], origins: origins)
        ).text
        #expect(!plain.contains("api.example") && plain.contains(#""http://plain.example:80": "PROXY 127.0.0.1:8080""#))
        let secure = ProxyAutoConfig(
            ProxyOffer(endpoints: [endpoint("127.0.0.1", 8443, isTLS: true)], origins: origins)
        ).text
        #expect(secure.contains(#""https://api.example:443": "HTTPS 127.0.0.1:8443""#))
    }

    @Test func aBundleHasEachCertificateOnceAndOursLast() {
        func pem(_ text: String) -> String { "-----BEGIN CERTIFICATE-----\n\(text)\n-----END CERTIFICATE-----\n" }
        let bundle = TrustBundle.merged(
            ["# a comment\n" + pem("AAAA"), pem("BBBB") + pem("AA\r\nAA")],
            own: pem("OOOO")
        )
        #expect(PEM.certificates(in: bundle) == ["AAAA", "BBBB", "OOOO"])
        let renewed = TrustBundle.renewed(bundle, own: pem("PPPP"))
        #expect(renewed.map(PEM.certificates) == ["AAAA", "BBBB", "PPPP"])
        // A program within a program: ours of before is not kept.
        #expect(
            PEM.certificates(in: TrustBundle.merged([bundle], own: pem("PPPP"))) == ["AAAA", "BBBB", "PPPP"]
        )
        #expect(TrustBundle.renewed(pem("AAAA"), own: "") == nil)
        let long = String(repeating: "A", count: 130)
        #expect(TrustBundle.merged([pem(long)], own: "").split(separator: "\n").map(\.count).max() ?? 0 <= 64)
        #expect(PEM.certificates(in: TrustBundle.merged([pem(long)], own: "")) == [long])
    }
}
