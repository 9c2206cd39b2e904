import Foundation
import Testing

@testable import GatewayApp

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

@Suite("The log of the system", .timeLimit(.minutes(5)))
struct SystemLogTests {
    /// Instead of the system's daemon.
    private final class Daemon {
        let path = "/tmp/syslog-\(UUID().uuidString.prefix(8))"
        private let descriptor: Int32

        init(streams: Bool) throws {
            #if canImport(Glibc)
                let type = Int32(streams ? SOCK_STREAM.rawValue : SOCK_DGRAM.rawValue)
            #else
                let type = streams ? SOCK_STREAM : SOCK_DGRAM
            #endif
            descriptor = socket(AF_UNIX, type, 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8) }
            let bound = unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            try #require(bound == 0)
            if streams { try #require(listen(descriptor, 1) == 0) }
        }

        deinit {
            close(descriptor)
            unsafe unlink(path)
        }

        func message(streams: Bool) -> String {
            let connection = streams ? accept(descriptor, nil, nil) : descriptor
            defer { if streams { close(connection) } }
            var buffer = [UInt8](repeating: 0, count: 1024)
            let count = unsafe recv(connection, &buffer, buffer.count, 0)
            return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
        }
    }

    @Test(arguments: [false, true])
    func aLineReachesTheDaemon(_ streams: Bool) throws {
        let daemon = try Daemon(streams: streams)
        #expect(SystemLog.note("audit head 5:ab", tag: "gateway", to: daemon.path) == nil)
        let end = streams ? "\n" : ""
        #expect(daemon.message(streams: streams) == "<85>gateway[\(getpid())]: audit head 5:ab\(end)")
    }

    @Test func withoutADaemonTheReasonIsSaid() throws {
        #expect(SystemLog.note("x", tag: "t", to: "/tmp/no-syslog") == "there is no /tmp/no-syslog")
        let path = try Daemon(streams: false).path
        #expect(SystemLog.note("x", tag: "t", to: path) == "there is no \(path)", "it is gone")
        let long = "/tmp/" + String(repeating: "x", count: 200)
        #expect(SystemLog.note("x", tag: "t", to: long) != nil)
    }

    @Test func aDaemonThatReadsNothingIsWaitedForASecond() throws {
        let daemon = try Daemon(streams: false)
        let start = ContinuousClock.now
        var failure: String?
        for _ in 0..<2000 where failure == nil { failure = SystemLog.note("x", tag: "t", to: daemon.path) }
        #expect(failure != nil)
        #expect(ContinuousClock.now - start < .seconds(10))
    }
}
