import Crypto
import FoundationEssentials
import Hummingbird

/// What a body consisted of: enough to prove that it arrived once and whole.
struct BodyDigest: Sendable {
    let size: Int
    let sha1: String
    let sha256: String

    /// Reads the body to its end, one piece at a time; memory does not grow with its size.
    init(reading body: RequestBody) async throws {
        var (size, sha1, sha256) = (0, Insecure.SHA1(), SHA256())
        for try await piece in body {
            let bytes = Array(piece.readableBytesView)
            size += bytes.count
            sha1.update(data: bytes)
            sha256.update(data: bytes)
        }
        self.size = size
        self.sha1 = Self.hexadecimal(sha1.finalize())
        self.sha256 = Self.hexadecimal(sha256.finalize())
    }

    static func hexadecimal(_ digest: some Sequence<UInt8>) -> String {
        digest.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}
