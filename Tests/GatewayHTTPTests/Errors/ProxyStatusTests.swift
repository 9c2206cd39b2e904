import GatewayHTTP
import Testing

@Suite(.timeLimit(.minutes(5)))
struct ProxyStatusTests {
    @Test(
        arguments: [
            ("api.box.com", "next-hop=api.box.com"), ("localhost:8080", "next-hop=localhost:8080"),
            ("a_b.example.", "next-hop=a_b.example."), ("127.0.0.1:9", "next-hop=\"127.0.0.1:9\""),
            ("[::1]:443", "next-hop=\"[::1]:443\""), ("-x.example", "next-hop=\"-x.example\""),
            ("_x.example", "next-hop=\"_x.example\""), ("", "next-hop=\"\""),
        ] as [(String, String)]
    )
    func aHopIsATokenWhereItCanBeOne(_ host: String, _ parameter: String) {
        #expect(ProxyStatus.member(nextHop: host) == "authgateway; \(parameter)")
    }

    @Test func whereNobodyWasAskedThereIsNoHop() {
        #expect(ProxyStatus.member(nextHop: nil) == "authgateway")
    }
}
