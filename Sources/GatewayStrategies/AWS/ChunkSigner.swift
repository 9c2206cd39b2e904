import GatewayHTTP
import GatewayTokens

/// Signs each chunk of a body anew while the body streams, and the trailers behind the last one.
///
///     header ──▶ data ──▶ header … ──▶ end
///
///     10000;chunk-signature=… CRLF data CRLF … 0;chunk-signature=… CRLF [trailers] CRLF
///
/// A chunk's signature stands before its data, so one chunk is held. Signatures have a fixed length and all else is sent as it came,
/// so the length of the body stays. The client's signatures are not verified, because they grant nothing. What begins with the last
/// chunk is sent when the body has ended: until then, an upstream does not take the body for complete.
///
/// Source: docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html and sigv4-streaming-trailers.html.
struct ChunkSigner: BodySigner {
    /// How a body is signed, as `x-amz-content-sha256` says it.
    enum Kind: String, Hashable, Sendable {
        case plain = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
        /// Trailers with checksums follow the last chunk.
        case trailers = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
    }

    /// The least data in a chunk that is not the last with data. S3 requires it, too ("Chunk size must be at least 8 KB"). Each chunk costs
    /// a signature, and clients share the thread that makes it.
    static let minimumChunk = 8_192
    /// The most data in one chunk. SDKs send 64 KiB or 128 KiB.
    static let maximumChunk = 1_048_576
    /// The most bytes behind the last chunk.
    static let maximumTrailers = 8_192

    private enum Phase {
        case header
        /// The header of the chunk is known; its data is not complete.
        ///
        /// - Parameter header: The length of the header.
        case data(header: Int, size: Int)
        /// The last chunk and all that follows are held until the body ends.
        case end(header: Int)
    }

    private let kind: Kind
    private let key: SignatureV4.Key
    private let time: String
    private let scope: SignatureV4.Scope
    /// `x-amz-decoded-content-length`
    private let length: Int
    /// What the chunks that have been announced leave of ``length``.
    private var remaining: Int
    /// The signature of the chunk before; at first that of the request.
    private var previous: String
    /// The chunk that is not complete, from the first byte of its header on.
    private var held: [UInt8] = []
    private var phase = Phase.header

    /// - Parameters:
    ///   - time: The `X-Amz-Date` of the request.
    ///   - seed: The signature of the request.
    ///   - length: The length of the data in all chunks.
    init(
        _ kind: Kind,
        _ key: SignatureV4.Key,
        at time: String,
        _ scope: SignatureV4.Scope,
        seed: String,
        length: Int
    ) {
        self.kind = kind
        self.key = key
        self.time = time
        self.scope = scope
        self.length = length
        remaining = length
        previous = seed
    }

    var heldBytes: Int { held.count }

    mutating func sign(_ part: borrowing Span<UInt8>, isLast: Bool) throws(GatewayProblem) -> [UInt8] {
        held += part.array(0..<part.count)
        var complete = 0
        while let end = try signChunk(from: complete) { complete = end }
        if isLast {
            try finish(from: complete)
            complete = held.count
        }
        defer { held.removeFirst(complete) }
        return Array(held.prefix(complete))
    }

    /// - Parameter start: Where the last chunk begins in ``held``.
    private mutating func finish(from start: Int) throws(GatewayProblem) {
        guard case .end(let header) = phase else {
            throw Self.malformed("it ends within a chunk, or without the last one, whose size is 0")
        }
        switch kind {
        case .plain:
            guard held[(start + header)...].elementsEqual(Self.lineEnd) else {
                throw Self.malformed("the last chunk is not followed by CRLF and the end of the body")
            }
        case .trailers: try signTrailers(from: start + header)
        }
    }

    // MARK: Chunks

    /// - Parameter start: Where the chunk begins in ``held``.
    /// - Returns: Where it ends; nil if more has to come first.
    private mutating func signChunk(from start: Int) throws(GatewayProblem) -> Int? {
        if case .header = phase { try readHeader(from: start) }
        switch phase {
        case .header: return nil
        case .data(let header, let size):
            let end = start + header + size
            guard held.count >= end + 2 else { return nil }
            guard held[end..<end + 2].elementsEqual(Self.lineEnd) else {
                throw Self.malformed("a chunk has more data than its size says, or no CRLF behind it")
            }
            signData((start + header)..<end)
            phase = .header
            return end + 2
        case .end(let header):
            guard held.count - start - header <= Self.maximumTrailers else {
                throw Self.malformed("more than \(Self.maximumTrailers) bytes follow the last chunk")
            }
            return nil
        }
    }

    /// `10000;chunk-signature=` and 64 hexadecimal digits.
    private mutating func readHeader(from start: Int) throws(GatewayProblem) {
        let digits = held[start...].prefix(Self.maximumDigits + 1).prefix { $0.isHexDigit }
        let mark = held[digits.endIndex...].prefix(Self.mark.count)
        guard digits.count <= Self.maximumDigits, Self.mark.starts(with: mark), mark.isEmpty || !digits.isEmpty else {
            throw Self.malformed("a chunk does not begin with SIZE;chunk-signature=")
        }
        // The size may go on.
        guard !mark.isEmpty else { return }
        let size = digits.reduce(0) { $0 << 4 | Int($1.hexValue ?? 0) }
        guard size <= Self.maximumChunk else {
            throw GatewayProblem(
                .contentTooLarge,
                "A chunk of the body is too long: the gateway keeps each one to sign it, at most \(Self.maximumChunk) bytes."
                    + " Have the client send shorter chunks."
            )
        }
        guard size >= Self.minimumChunk || size >= remaining || size == 0 else {
            throw GatewayProblem(
                .requestRefused,
                "A chunk of the body is too short: all but the last one must have at least \(Self.minimumChunk) bytes, as S3 requires."
                    + " Have the client send longer chunks."
            )
        }
        let signature = digits.endIndex + Self.mark.count
        let end = signature + Self.signatureLength
        guard held.count >= end + 2 else { return }
        guard held[signature..<end].allSatisfy(\.isHexDigit), held[end..<end + 2].elementsEqual(Self.lineEnd) else {
            throw Self.malformed("a chunk-signature is not \(Self.signatureLength) hexadecimal digits before CRLF")
        }
        guard size <= remaining, size > 0 || remaining == 0 else {
            let word = size > 0 ? "more" : "less"
            throw Self.malformed(
                "its chunks have \(word) data than x-amz-decoded-content-length says (\(length) bytes)"
            )
        }
        remaining -= size
        let header = end + 2 - start
        if size > 0 {
            phase = .data(header: header, size: size)
        } else {
            signData((end + 2)..<(end + 2))
            phase = .end(header: header)
        }
    }

    /// - Parameter data: Where the data of a chunk stands in ``held``, behind its header.
    private mutating func signData(_ data: Range<Int>) {
        let hash = SignatureV4.hash(held.span.extracting(data))
        let start = data.lowerBound - Self.lineEnd.count - Self.signatureLength
        write(sign("PAYLOAD", "\(SignatureV4.emptyHash)\n\(hash)"), at: start)
    }

    // MARK: Trailers

    private mutating func signTrailers(from start: Int) throws(GatewayProblem) {
        var trailers: [(name: [UInt8], value: [UInt8])] = []
        var signature: Int?
        // Some clients (minio-go) end trailers with LF, and have an empty line before the signature.
        for line in held[start...].split(separator: 0x0A) {
            let line = line.last == 0x0D ? line.dropLast() : line
            guard !line.isEmpty else { continue }
            guard signature == nil, let colon = line.firstIndex(of: 0x3A) else {
                throw Self.malformed("a trailer is not NAME:VALUE, or stands behind \(Self.signatureName)")
            }
            let name = line[..<colon].map(\.asciiLowercased)
            let value = line[(colon + 1)...].trimmed
            if name.elementsEqual(Self.signatureName.utf8) {
                guard value.count == Self.signatureLength, value.allSatisfy(\.isHexDigit) else { break }
                signature = value.startIndex
            } else {
                trailers.append((name, Array(value)))
            }
        }
        guard let signature, held.last == 0x0A else {
            throw Self.malformed(
                "its trailers do not end with \(Self.signatureName) and its \(Self.signatureLength) digits"
            )
        }
        let sorted = trailers.sorted { $0.name.lexicographicallyPrecedes($1.name) }
        let canonical = Array(sorted.map { $0.name + [0x3A] + $0.value + [0x0A] }.joined())
        write(sign("TRAILER", SignatureV4.hash(canonical.span)), at: signature)
    }

    // MARK: Signatures

    private mutating func sign(_ kind: String, _ hashes: String) -> String {
        previous = key.signature(of: "\(SignatureV4.algorithm)-\(kind)\n\(time)\n\(scope.text)\n\(previous)\n\(hashes)")
        return previous
    }

    private mutating func write(_ signature: String, at start: Int) {
        assert(signature.utf8.count == Self.signatureLength, "A signature has another length.")
        held.replaceSubrange(start..<start + Self.signatureLength, with: signature.utf8)
    }

    // MARK: Format

    private static let mark = Array(";chunk-signature=".utf8)
    private static let signatureName = "x-amz-trailer-signature"
    private static let signatureLength = 64
    private static let lineEnd: [UInt8] = [0x0D, 0x0A]
    /// More cannot be the size of a chunk, and would not fit into an `Int`.
    private static let maximumDigits = 15

    private static func malformed(_ detail: String) -> GatewayProblem {
        GatewayProblem(
            .requestRefused,
            "The body is not in the format that x-amz-content-sha256 announces (aws-chunked): \(detail)."
        )
    }
}

extension ArraySlice<UInt8> {
    fileprivate var trimmed: ArraySlice<UInt8> {
        var slice = drop(while: \.isOptionalWhitespace)
        while slice.last?.isOptionalWhitespace == true { slice.removeLast() }
        return slice
    }
}
