import GatewayHTTP
import Testing

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
