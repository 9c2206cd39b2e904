#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

enum IPAddressText {
    /// The bytes of an address that is written as one, without brackets; nil for a name.
    static func bytes(_ text: String) -> [UInt8]? {
        bytes(text, AF_INET, count: 4) ?? bytes(text, AF_INET6, count: 16)
    }

    private static func bytes(_ text: String, _ family: Int32, count: Int) -> [UInt8]? {
        var found = [UInt8](repeating: 0, count: count)
        let isAddress = unsafe found.withUnsafeMutableBytes { bytes in
            unsafe inet_pton(family, text, bytes.baseAddress) == 1
        }
        return isAddress ? found : nil
    }
}
