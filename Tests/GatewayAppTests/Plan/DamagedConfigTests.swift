import CNIOLinux
import GatewayConfiguration
import GatewayStrategies
import GatewayTesting
import Testing

@testable import GatewayApp

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Whatever is done to a configuration, it is answered: a plan, or diagnostics that can be printed.
@Suite("Damaged configurations", .timeLimit(.minutes(5)))
struct DamagedConfigTests {
    private static let whole = """
        version: 1
        state_directory: ./state
        listeners: {proxy: [{address: 127.0.0.1:8080}, {unix: ./p.sock, allow_users: [0]}], admin: {address: "[::1]:1"}}
        access: {clients: {laptop: {token: "hünter2"}}, allow_origins: [https://a.example.com]}
        limits: {header_bytes: 64KiB, drain: 30s}
        credentials:
          box: &box
            strategy: box_ccg
            client_id: ${ID:-id}
            client_secret: {env: TOKEN}   # a comment
            subject: {enterprise: "1"}
            renew: {ahead: 10%, at_least: 60s}
        routes:
          a:
            upstream: https://a.example.com/v2
            auth: {credential: box, subject: {user: '42'}}
            allow: [{methods: [GET], path: /**}]
          b: {upstream: "https://b.example.com", auth: box, match: {path: /x, hosts: [x.localhost]}}
          c:
            upstream: >-
              https://c.example.com
            auth: {strategy: basic, username: no, password: |
              two
              lines
            }
        """

    private func answer(_ bytes: [UInt8]) -> String {
        var files = MemoryFiles([:])
        files.files["/work/gateway.yaml"] = bytes
        let secrets = MemorySecrets(variables: ["TOKEN": "t"])
        let outcome = ConfigLoader(files: files, environment: { secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
        let isRefused = outcome.plan == nil
        #expect(isRefused == outcome.diagnostics.contains { $0.severity == .error })
        return outcome.report(consequence: "refused")
    }

    @Test func everyTruncationIsAnswered() {
        let bytes = Array(Self.whole.utf8)
        for length in 0..<bytes.count { _ = answer(Array(bytes[..<length])) }
    }

    @Test(arguments: 1...8 as ClosedRange<UInt64>)
    func everyDamageIsAnswered(_ seed: UInt64) {
        var random = SplitMix(seed: seed)
        let pristine = Array(Self.whole.utf8)
        let spice = Array("{}[]:,-?&*#|>!%@`\"'\\\t\n\r \0$~<=".utf8) + [0xC2, 0x85, 0xE2, 0xEF, 0xFF]
        for _ in 0..<400 {
            var bytes = pristine
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                case 1: bytes[index] = spice.randomElement(using: &random) ?? 0
                case 2: bytes.insert(spice.randomElement(using: &random) ?? 0, at: index)
                default: bytes.remove(at: index)
                }
            }
            _ = answer(bytes)
        }
    }

    /// CPU time of this thread, which does not depend on the load of the machine.
    private static func processorTime() -> Duration {
        var time = timespec()
        let status = unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        #expect(status == 0)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    /// Half a mebibyte takes about 16 times as long as a sixteenth of it. Quadratic work would take 256 times as long.
    @Test(
        .timeLimit(.minutes(5)),
        arguments: [
            "a: 1\n", "[a, b], ", "{a: *a}, ", "%TAG !a! b\n", "- &a b\n", "x: {x: ", "\"", "'a' ", "| \n", "? a\n",
            "//@", "#",
        ]
    )
    func repetitionIsAnsweredInTime(_ piece: String) {
        func cost(_ bytes: Int) -> Duration {
            let text = Array(String(repeating: piece, count: bytes / piece.utf8.count).utf8)
            let start = Self.processorTime()
            let report = answer(text)
            let end = Self.processorTime()
            #expect(!report.isEmpty && report.utf8.count < 100_000)
            return end - start
        }
        let small = min(cost(31_250), cost(31_250))
        let large = cost(500_000)
        #expect(large < max(small, .milliseconds(2)) * 64, "\(small), then \(large)")
    }

    @Test(.timeLimit(.minutes(5)), arguments: [", ", ",\n"])
    func manyProblemsAreAnsweredInTime(_ separator: String) {
        for form in [
            "r#: {upstream: \"${X}\", auth: nobody}", "r#: {upstream: https://a.b, auth: c#}", "r#: \"${X}\"", "r#: 1",
        ] {
            let routes = (0..<300).map { form.replacing("#", with: String($0)) }.joined(separator: separator)
            let text = answer(Array("{version: 1, routes: {\(routes)}}".utf8))
            #expect(text.contains("more.\n") || text.contains("more than"), "\(text.prefix(300))")
        }
        let routes = (0..<150).map { "r\($0): {upstream: https://a.b, auth: c\($0)}" }.joined(separator: separator)
        let tokens = (0..<150).map { "b\($0): {strategy: bearer, token: hunter2}" }.joined(separator: separator)
        let text = answer(Array("{version: 1, credentials: {\(tokens)}, routes: {\(routes)}}".utf8))
        #expect(text.contains("more.\n"))
        #expect(!text.contains("hunter2"))
    }

    @Test(arguments: 1...4 as ClosedRange<UInt64>)
    func noiseIsAnswered(_ seed: UInt64) {
        var random = SplitMix(seed: seed)
        let alphabet = Array("ab:-?[]{}&*!|>'\"%@`#,~ \n\t$\\".utf8)
        for _ in 0..<1000 {
            let length = Int.random(in: 0..<80, using: &random)
            _ = answer((0..<length).map { _ in alphabet.randomElement(using: &random) ?? 0 })
        }
    }
}
