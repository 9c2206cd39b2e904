import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

/// The examples are those of docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html and sigv4-streaming-trailers.html.
@Suite("AWS: bodies in signed chunks", .timeLimit(.minutes(5)))
struct ChunkSignerTests {
    private static let scope = SignatureV4.Scope(date: "20130524", region: "us-east-1", service: "s3")
    private static let key = SignatureV4.Key(scope, secret: Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"))
    private static let time = "20130524T000000Z"
    private static let unsigned = String(repeating: "0", count: 64)
    private static let checksum = "x-amz-checksum-crc32c:sOO8/Q==\r\n"

    private static let seeds: [ChunkSigner.Kind: String] = [
        .plain: "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
        .trailers: "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
    ]
    private static let signatures: [ChunkSigner.Kind: [String]] = [
        .plain: [
            "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
            "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
        ],
        .trailers: [
            "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
            "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
            "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
            "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435",
        ],
    ]

    /// 66,560 times "a", in a chunk of 64 KiB and one of 1 KiB.
    private func example(_ kind: ChunkSigner.Kind, _ signatures: [String]) -> [UInt8] {
        body([65_536, 1024], signatures: signatures)
            + Array((kind == .plain ? "\r\n" : Self.checksum + trailer(signatures[3])).utf8)
    }

    private func trailer(_ signature: String = Self.unsigned) -> String {
        "x-amz-trailer-signature:\(signature)\r\n\r\n"
    }

    /// Chunks, and the header of the last one.
    private func body(_ sizes: [Int], signatures: [String]? = nil) -> [UInt8] {
        var bytes: [UInt8] = []
        for (index, size) in (sizes + [0]).enumerated() {
            let signature = signatures?[index] ?? Self.unsigned
            bytes += Array("\(String(size, radix: 16));chunk-signature=\(signature)\r\n".utf8)
            if size > 0 { bytes += [UInt8](repeating: 0x61, count: size) + [0x0D, 0x0A] }
        }
        return bytes
    }

    private func signer(_ kind: ChunkSigner.Kind, length: Int = 66_560) throws -> ChunkSigner {
        let seed = try #require(Self.seeds[kind])
        return ChunkSigner(kind, Self.key, at: Self.time, Self.scope, seed: seed, length: length)
    }

    /// - Parameter parts: The lengths of the parts in which the body comes; the rest comes at once.
    private func sign(_ body: [UInt8], by signer: ChunkSigner, parts: [Int] = []) throws -> [UInt8] {
        var signer = signer
        var signed: [UInt8] = []
        var rest = body[...]
        for part in parts where part < rest.count {
            signed += try feed(&signer, Array(rest.prefix(part)))
            rest = rest.dropFirst(part)
        }
        return try signed + feed(&signer, Array(rest), isLast: true)
    }

    private func feed(_ signer: inout ChunkSigner, _ part: [UInt8], isLast: Bool = false) throws -> [UInt8] {
        try signer.sign(part.span, isLast: isLast)
    }

    private func problem(
        _ body: [UInt8],
        _ kind: ChunkSigner.Kind = .plain,
        length: Int
    ) throws -> GatewayProblem? {
        do { _ = try sign(body, by: signer(kind, length: length)) } catch let problem as GatewayProblem {
            return problem
        }
        return nil
    }

    // MARK: Examples

    @Test func theSeedsAreThoseOfTheExamples() {
        func seed(_ kind: ChunkSigner.Kind, _ more: [(String, String)]) -> String {
            let fields = [
                ("content-encoding", "aws-chunked"), ("host", "s3.amazonaws.com"),
                ("x-amz-content-sha256", kind.rawValue),
                ("x-amz-date", Self.time), ("x-amz-decoded-content-length", "66560"),
                ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ]
            let request = SignatureV4.Request(
                method: "PUT",
                path: Array("/examplebucket/chunkObject.txt".utf8),
                query: [],
                fields: (fields + more).map { SignatureV4.Field(name: $0.0, value: Array($0.1.utf8)) },
                payload: kind.rawValue,
                pathRule: .s3
            )
            return Self.key.signature(of: SignatureV4.stringToSign(request.canonical, at: Self.time, Self.scope))
        }
        #expect(seed(.plain, [("content-length", "66824")]) == Self.seeds[.plain])
        #expect(seed(.trailers, [("x-amz-trailer", "x-amz-checksum-crc32c")]) == Self.seeds[.trailers])
    }

    @Test(arguments: [ChunkSigner.Kind.plain, .trailers])
    func theSignaturesAreThoseOfTheExamples(_ kind: ChunkSigner.Kind) throws {
        let expected = example(kind, try #require(Self.signatures[kind]))
        let unsigned = example(kind, [String](repeating: Self.unsigned, count: 4))
        #expect(expected.count == (kind == .plain ? 66_824 : 66_946))
        #expect(try sign(unsigned, by: signer(kind)) == expected)
        // Those of the client do not matter.
        #expect(try sign(expected, by: signer(kind)) == expected)
    }

    @Test(arguments: [ChunkSigner.Kind.plain, .trailers], [1, 2, 97, 16_384, 65_536, 70_000])
    func howTheBodyIsSplitDoesNotMatter(_ kind: ChunkSigner.Kind, _ longest: Int) throws {
        let body = example(kind, [String](repeating: Self.unsigned, count: 4))
        let expected = example(kind, try #require(Self.signatures[kind]))
        for seed in 1...UInt64(longest < 100 ? 2 : 20) {
            var random = SplitMix(seed: seed)
            var parts: [Int] = []
            for _ in 0..<body.count / max(longest / 2, 1) { parts.append(Int.random(in: 0...longest, using: &random)) }
            #expect(try sign(body, by: signer(kind), parts: parts) == expected, "seed \(seed)")
        }
    }

    @Test func trailersMayEndWithLineFeedsOnly() throws {
        let tail = "x-amz-checksum-crc32c: sOO8/Q==\n\r\nX-Amz-Trailer-Signature:"
        let sent = body([65_536, 1024]) + Array("\(tail)\(Self.unsigned)\r\n".utf8)
        let signed = try sign(sent, by: signer(.trailers))
        let signature = try #require(Self.signatures[.trailers]?.last)
        #expect(String(decoding: signed, as: UTF8.self).hasSuffix("\(tail)\(signature)\r\n"))
    }

    @Test func trailersAreSignedInTheOrderOfTheirNames() throws {
        let sorted = "a:1\r\nb:2\r\n"
        let other = "b:2\r\na:1\r\n"
        let ends = try [sorted, other].map { lines in
            try sign(body([]) + Array((lines + trailer()).utf8), by: signer(.trailers, length: 0)).suffix(70)
        }
        #expect(ends[0] == ends[1])
        let third = try sign(body([]) + Array(("a:1\r\n" + trailer()).utf8), by: signer(.trailers, length: 0))
        #expect(ends[0] != third.suffix(70))
    }

    // MARK: What is held

    @Test func oneChunkIsHeldAndNoMore() throws {
        var signer = try signer(.plain, length: 3 * ChunkSigner.maximumChunk)
        let chunk = Array(body([ChunkSigner.maximumChunk]).dropLast(body([]).count))
        for _ in 0..<3 {
            let early = try feed(&signer, chunk.dropLast())
            #expect(early.isEmpty && signer.heldBytes == chunk.count - 1)
            let signed = try feed(&signer, chunk.suffix(1))
            #expect(signed.count == chunk.count && signer.heldBytes == 0)
        }
    }

    @Test func theLastChunkIsSentOnlyAtTheEndOfTheBody() throws {
        var signer = try signer(.plain, length: 0)
        let last = body([]) + [0x0D, 0x0A]
        let early = try feed(&signer, last)
        #expect(early.isEmpty)
        let signed = try feed(&signer, [], isLast: true)
        #expect(signed.count == last.count)
    }

    @Test func aChunkThatIsTooLongIsRefusedBeforeItsData() throws {
        var signer = try signer(.plain, length: 1 << 40)
        #expect(throws: GatewayProblem.self) { try feed(&signer, Array("100001;".utf8)) }
        let problem = try problem(body([ChunkSigner.maximumChunk + 1]), length: ChunkSigner.maximumChunk + 1)
        #expect(problem?.kind == .contentTooLarge)
        #expect(problem?.detail.contains("at most 1048576 bytes") == true)
    }

    /// Each chunk costs a signature, however short it is.
    @Test func onlyTheLastChunkMayBeShort() throws {
        let short = ChunkSigner.minimumChunk - 1
        #expect(try problem(body([ChunkSigner.minimumChunk, 1]) + [0x0D, 0x0A], length: short + 2) == nil)
        #expect(try problem(body([1]) + [0x0D, 0x0A], length: 1) == nil)
        for sizes in [[1, 1], [short, ChunkSigner.minimumChunk], [65_536, short, 1]] {
            let problem = try problem(body(sizes) + [0x0D, 0x0A], length: sizes.reduce(0, +))
            #expect(problem?.kind == .requestRefused, "\(sizes)")
            #expect(problem?.detail.contains("at least 8192 bytes") == true, "\(sizes)")
        }
    }

    @Test func aShortChunkIsRefusedBeforeItsData() throws {
        var signer = try signer(.plain, length: 1 << 20)
        #expect(throws: GatewayProblem.self) { try feed(&signer, Array("1fff;".utf8)) }
    }

    @Test func trailersHaveALimit() throws {
        let long = body([]) + [UInt8](repeating: 0x61, count: ChunkSigner.maximumTrailers)
        for more in [0, 1] {
            var signer = try signer(.trailers, length: 0)
            let bytes = long + [UInt8](repeating: 0x61, count: more)
            if more == 0 {
                let early = try feed(&signer, bytes)
                #expect(early.isEmpty)
            } else {
                #expect(throws: GatewayProblem.self) { try feed(&signer, bytes) }
            }
        }
    }

    // MARK: What is refused

    @Test(arguments: [
        "5\r\nhello\r\n0\r\n\r\n", ";chunk-signature=", "5;chunk-signature=00\r\nhello\r\n", "5;signature=", "g", "0x5",
        "0000000000000005;chunk-signature=", " 5;chunk-signature=", "\r\n",
    ])
    func whatIsNotAChunkIsRefused(_ text: String) throws {
        let bytes = Array(text.utf8) + [UInt8](repeating: 0x20, count: 200)
        #expect(try problem(bytes, length: 5)?.kind == .requestRefused)
    }

    @Test func aBodyThatBreaksOffIsRefused() throws {
        for kind in [ChunkSigner.Kind.plain, .trailers] {
            let whole = body([5]) + Array((kind == .plain ? "\r\n" : Self.checksum + trailer()).utf8)
            // Some clients leave out the empty line behind the signature of the trailers.
            for count in 0..<whole.count - (kind == .plain ? 0 : 2) {
                let problem = try problem(Array(whole.prefix(count)), kind, length: 5)
                #expect(problem?.kind == .requestRefused, "\(kind), \(count) bytes")
            }
            #expect(try problem(whole, kind, length: 5) == nil)
        }
    }

    @Test func whatFollowsTheEndIsRefused() throws {
        #expect(try problem(body([5]) + Array("\r\nmore".utf8), length: 5) != nil)
        #expect(try problem(body([5]) + Array((trailer() + "more").utf8), .trailers, length: 5) != nil)
        #expect(try problem(body([5]) + Array((trailer() + trailer()).utf8), .trailers, length: 5) != nil)
    }

    @Test func trailersWithoutTheirSignatureAreRefused() throws {
        for tail in ["\r\n", Self.checksum + "\r\n", "x-amz-trailer-signature:00\r\n\r\n", "name\r\n" + trailer()] {
            let problem = try problem(body([5]) + Array(tail.utf8), .trailers, length: 5)
            #expect(problem?.kind == .requestRefused, "\(tail)")
        }
    }

    @Test(arguments: [(16_383, "more"), (16_385, "less"), (20_000, "less")])
    func theLengthMustBeTheDeclaredOne(_ length: Int, _ word: String) throws {
        let problem = try problem(body([8192, 8192]) + [0x0D, 0x0A], length: length)
        #expect(problem?.kind == .requestRefused)
        #expect(
            problem?.detail.contains("\(word) data than x-amz-decoded-content-length says (\(length) bytes)") == true
        )
    }

    @Test func dataThatDoesNotEndWhereItsSizeSaysIsRefused() throws {
        var bytes = body([5]) + [0x0D, 0x0A]
        let data = bytes.count - body([]).count - 9
        bytes.insert(0x61, at: data)
        #expect(try problem(bytes, length: 5)?.detail.contains("than its size says") == true)
    }
}
