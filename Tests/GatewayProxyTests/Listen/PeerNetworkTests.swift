import GatewayHTTP
import Testing

@Suite("The network of a client's address", .timeLimit(.minutes(5)))
struct PeerNetworkTests {
    @Test(arguments: [
        ("192.0.2.7", "192.0.2.7"),
        ("unix", "unix"),
        ("::ffff:192.0.2.7", "::ffff:192.0.2.7"),
        ("2001:db8::1", "2001:db8:0:0::/64"),
        ("2001:db8::2:0:0:1", "2001:db8:0:0::/64"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1::", "2001:db8:1:0::/64"),
        ("::1", "0:0:0:0::/64"),
        ("::", "0:0:0:0::/64"),
    ])
    func itIsTheFirstHalfOfAnIPv6Address(_ address: String, _ network: String) {
        #expect(PeerAddressKey.network(ofAddress: address) == network)
    }
}
