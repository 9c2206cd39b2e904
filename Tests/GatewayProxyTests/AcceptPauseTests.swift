import Logging
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import GatewayProxy

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

@Suite("Pauses of accepting", .timeLimit(.minutes(1)))
struct AcceptPauseTests {
    private final class Lines: LogHandler, Sendable {
        private let lines = Mutex<[String]>([])
        var count: Int { lines.withLock { $0.count } }
        var metadata: Logger.Metadata {
            get { [:] }
            set {}
        }
        var logLevel: Logger.Level {
            get { .info }
            set {}
        }
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { nil }
            set {}
        }
        func log(event: LogEvent) { lines.withLock { $0.append("\(event.message)") } }
    }

    private let lines = Lines()
    private let loop = EmbeddedEventLoop()
    private let channel: EmbeddedChannel

    init() throws {
        channel = EmbeddedChannel(loop: loop)
        let lines = lines
        try AcceptPause.add(to: channel, logger: Logger(label: "test") { _ in lines }).wait()
    }

    private func fail(_ code: CInt = EMFILE) {
        channel.pipeline.fireErrorCaught(IOError(errnoCode: code, reason: "accept"))
        #expect(throws: IOError.self) { try channel.throwIfErrorCaught() }
    }

    @Test func theShortageIsLoggedOnceAMinute() {
        fail()
        #expect(lines.count == 1)
        let steps = AcceptPause.silence.nanoseconds / AcceptPause.pause.nanoseconds
        for _ in 1..<steps {
            loop.advanceTime(by: AcceptPause.pause)
            fail()
        }
        #expect(lines.count == 1)
        loop.advanceTime(by: AcceptPause.pause)
        fail()
        #expect(lines.count == 2)
        fail()
        #expect(lines.count == 2)
    }

    @Test func otherErrorsAreNotLogged() {
        fail(ECONNABORTED)
        #expect(lines.count == 0)
    }
}
