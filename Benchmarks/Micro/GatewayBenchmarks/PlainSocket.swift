import Glibc

/// A blocking socket on loopback, by system calls alone.
struct PlainSocket: Sendable {
    let descriptor: Int32
    var port = 0

    static func listen() throws -> PlainSocket {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = loopback(port: 0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                bind(descriptor, generic, length) | Glibc.listen(descriptor, 16)
                    | getsockname(descriptor, generic, &length)
            }
        }
        guard status == 0 else { throw BenchmarkFailure.noConnection }
        return PlainSocket(descriptor: descriptor, port: Int(UInt16(bigEndian: address.sin_port)))
    }

    static func connect(port: Int) throws -> PlainSocket {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = loopback(port: port)
        let status = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0 else { throw BenchmarkFailure.noConnection }
        return PlainSocket(descriptor: descriptor)
    }

    func accept() -> PlainSocket { PlainSocket(descriptor: Glibc.accept(descriptor, nil, nil)) }

    func write(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) == $0.count }
    }

    /// Reads until at least `count` bytes have come.
    func read(into bytes: inout [UInt8], until count: Int) -> Bool {
        var total = 0
        while total < count {
            let number = bytes.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress, $0.count) }
            guard number > 0 else { return false }
            total += number
        }
        return true
    }

    private static func loopback(port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }
}
