#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The name of this machine.
enum HostName {
    private static let maximumLength = 255

    /// As the system has it; no name server is asked.
    static let current: String = {
        var bytes = [CChar](repeating: 0, count: maximumLength + 1)
        guard unsafe gethostname(&bytes, maximumLength) == 0 else { return "unknown" }
        let name = bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        return name.isEmpty ? "unknown" : String(decoding: name, as: UTF8.self)
    }()
}
