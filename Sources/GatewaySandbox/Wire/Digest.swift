import Crypto
import FoundationEssentials
import GatewayCore
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
        self.sha1 = Hexadecimal.text(of: sha1.finalize())
        self.sha256 = Hexadecimal.text(of: sha256.finalize())
    }
}
