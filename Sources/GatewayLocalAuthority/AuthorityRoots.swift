import Crypto
import Foundation
package import GatewayCore
import GatewayFiles
import SwiftASN1
import X509

/// The certificates of the local authority as everybody may see them, without its keys.
package enum AuthorityRoots {
    package struct Root: Sendable {
        package let root: AuthorityTrust.Root
        package let der: [UInt8]
        package let pem: String
    }

    /// The maximum size of the file with the certificates.
    package static let limit = 16 << 20

    /// - Returns: Empty when there is no authority.
    package static func read(in stateDirectory: String) throws(LeafError) -> [Root] {
        let path = LocalAuthority.bundlePath(in: stateDirectory)
        let bytes: [UInt8]
        do throws(BoundedFile.Failure) {
            bytes = try BoundedFile.read(path, limit: limit).bytes
        } catch {
            if error == .missing { return [] }
            throw LeafError("the certificates of the local authority, \(path), cannot be read: \(error.message)")
        }
        do {
            return try PEMDocument.parseMultiple(pemString: String(decoding: bytes, as: UTF8.self)).map(root)
        } catch {
            throw LeafError("the certificates \(path) are damaged; a gateway writes them anew when it starts")
        }
    }

    private static func root(_ document: PEMDocument) throws -> Root {
        let certificate = try Certificate(derEncoded: document.derBytes)
        let names = certificate.subject.flatMap { Array($0) }.filter { $0.type == .RDNAttributeType.commonName }
        return Root(
            root: AuthorityTrust.Root(
                name: names.first.map { String(describing: $0.value) } ?? "without a name",
                endsAt: UnixTime(seconds: Int64(certificate.notValidAfter.timeIntervalSince1970)),
                fingerprint: Hexadecimal.text(of: SHA256.hash(data: document.derBytes))
            ),
            der: document.derBytes,
            pem: document.pemString + "\n"
        )
    }
}
