import GatewayHTTP
import Testing

@Suite(.timeLimit(.minutes(5)))
struct IPAddressTests {
    @Test(
        arguments: [
            ("192.0.2.7", "192.0.2.7"), ("::1", "::1"), ("0:0:0:0:0:0:0:1", "::1"), ("::", "::"),
            ("2001:DB8::1:0:0:1", "2001:db8::1:0:0:1"), ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
            ("::ffff:192.0.2.7", "192.0.2.7"), ("64:ff9b::192.0.2.7", "64:ff9b::c000:207"), ("1::", "1::"),
        ]
    )
    func isRead(_ text: String, _ shown: String) { #expect(IPAddress(text)?.description == shown) }

    @Test(
        arguments: [
            "", "1", "127.1", "0127.0.0.1", "256.0.0.1", "1.2.3.4.5", "1.2.3.", "0x7f.0.0.1", "2130706433", ":", ":::",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:6:7:8:9", "1::2::3", "::12345", "::g", "fe80::1%eth0", "[::1]", "::1.2.3", "1.2.3.4::",
            "1:2:3:4:5:6:7::8",
            "localhost",
        ]
    )
    func isNoAddress(_ text: String) { #expect(IPAddress(text) == nil) }

    @Test func hasFourOrSixteenBytes() {
        #expect(
            IPAddress([127, 0, 0]) == nil && IPAddress([]) == nil
                && IPAddress([127, 0, 0, 1])?.description == "127.0.0.1"
        )
    }

    @Test(
        arguments: [
            ("10.0.0.0/8", "10.255.0.1", true), ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.128.0/17", "10.1.127.255", false),
            ("10.1.128.0/17", "10.1.128.0", true), ("0.0.0.0/0", "203.0.113.1", true), ("0.0.0.0/0", "::1", false),
            ("192.0.2.7/32", "192.0.2.7", true), ("192.0.2.7/32", "192.0.2.6", false), ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false), ("10.0.0.0/8", "::ffff:10.0.0.1", true),
        ] as [(String, String, Bool)]
    )
    func aNetworkHasTheAddressesThatBeginWithItsBits(_ network: String, _ address: String, _ isIn: Bool) throws {
        #expect(try #require(IPNetwork(network)).contains(try #require(IPAddress(address))) == isIn)
    }

    @Test(arguments: [
        "10.0.0.0", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/08", "10.0.0.0/", "fd00::/129", "/8",
    ])
    func isNoNetwork(_ text: String) { #expect(IPNetwork(text) == nil) }
}

@Suite(.timeLimit(.minutes(5)))
struct PublicAddressTests {
    @Test(
        arguments: [
            "1.0.0.0", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0", "126.255.255.255",
            "128.0.0.1", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0", "223.255.255.255", "2606:2800:220:1:248:1893:25c8:1946", "2001:200::1",
            "64:ff9b::93.184.216.34",
            "2002:5db8:d822::1", "::ffff:93.184.216.34",
        ]
    )
    func isPublic(_ text: String) throws { #expect(PublicAddress.contains(try #require(IPAddress(text)))) }

    @Test(
        arguments: [
            "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.255",
            "168.63.129.16",
            "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1",
            "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
            "::", "::1", "::127.0.0.1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001::1",
            "2001:db8::1",
            "3fff::1", "5f00::1", "100::1", "4000::1",
            // In other spellings, and carried in others.
            "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::a00:1",
            "64:ff9b::169.254.169.254", "64:ff9b:1::93.184.216.34", "2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:1::1",
        ]
    )
    func isNot(_ text: String) throws { #expect(!PublicAddress.contains(try #require(IPAddress(text)))) }
}

@Suite(.timeLimit(.minutes(5)))
struct ProhibitedAddressTests {
    @Test(arguments: [
        ("0.0.0.0", true), ("0.255.255.255", true), ("1.0.0.0", false),
        ("169.253.255.255", false), ("169.254.0.0", true), ("169.254.169.254", true), ("169.254.255.255", true),
        ("169.255.0.0", false), ("100.100.100.200", true), ("100.100.100.201", false),
        ("168.63.129.16", true), ("168.63.129.17", false), ("192.0.0.192", true),
        ("127.0.0.1", false), ("10.0.0.1", false), ("192.168.1.1", false), ("93.184.216.34", false),
    ])
    func addressesOfVersion4(_ text: String, _ isProhibited: Bool) {
        #expect(ProhibitedAddress.contains(text.split(separator: ".").compactMap { UInt8($0) }) == isProhibited)
    }

    @Test(arguments: [
        ("fe7f 0 0 0 0 0 0 1", false), ("fe80 0 0 0 0 0 0 1", true), ("fe81 0 0 0 0 0 0 1", true),
        ("febf ffff 0 0 0 0 0 1", true), ("fec0 0 0 0 0 0 0 1", false),
        ("0 0 0 0 0 0 0 0", true), ("0 0 0 0 0 0 0 1", false), ("0 0 0 0 0 0 a9fe a9fe", true),
        ("0 0 0 0 0 ffff a9fe a9fe", true), ("0 0 0 0 0 ffff 7f00 1", false), ("0 0 0 0 0 ffff 0 0", true),
        ("64 ff9b 0 0 0 0 a9fe a9fe", true), ("64 ff9b 0 0 0 0 5db8 d822", false),
        ("2002 a9fe a9fe 0 0 0 0 1", true), ("2002 5db8 d822 0 0 0 0 1", false),
        ("fd00 ec2 0 0 0 0 0 254", true), ("fd00 ec2 0 0 0 0 0 23", true), ("fd20 ce 0 0 0 0 0 254", true),
        ("fd00 c1 0 0 0 0 a9fe a9fe", true), ("fd00 100 0 0 0 0 100 200", true), ("fd00 100 0 0 0 0 100 201", false),
        ("fd00 a9fe a9fe 0 0 0 0 1", true), ("fd00 42 0 0 0 0 0 42", true), ("fd00 42 0 0 0 0 0 43", false),
        ("fd12 3456 789a 0 0 0 0 1", false), ("0 0 0 0 ffff 0 a9fe a9fe", true), ("0 0 0 0 ffff 0 5db8 d822", false),
        ("64 ff9b 1 0 0 0 a9fe a9fe", true), ("64 ff9b 1 7 0 0 a9fe a9fe", true), ("64 ff9b 1 0 0 0 5db8 d822", false),
        ("2606 2800 220 1 248 1893 25c8 1946", false),
    ])
    func addressesOfVersion6(_ groups: String, _ isProhibited: Bool) throws {
        let bytes = try groups.split(separator: " ").flatMap { group -> [UInt8] in
            let number = try #require(UInt16(group, radix: 16))
            return [UInt8(number >> 8), UInt8(number & 0xFF)]
        }
        #expect(ProhibitedAddress.contains(bytes) == isProhibited)
    }

    @Test func whatIsNoAddressIsProhibited() {
        #expect(ProhibitedAddress.contains([127, 0, 0, 1, 0]))
    }
}
