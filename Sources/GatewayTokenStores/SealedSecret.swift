import Crypto
import Foundation
package import GatewayFiles
package import GatewayHTTP

/// The content of a file with a secret that an authorization server has issued to a command, such as that of a registered client. It is
/// encrypted like a token: AES-256-GCM, with a key that is derived from the installation key.
package enum SealedSecret {
    /// The name of the installation key's file, in the folder above that of the secret.
    package static let keyName = "token.key"
    private static let mark = "authgateway-sealed-1 "

    package static func isSealed(_ content: [UInt8]) -> Bool { content.starts(with: mark.utf8) }

    /// - Parameter name: Of the file; the content is of no use in another one.
    package static func seal(
        _ secret: Secret,
        named name: String,
        with key: InstallationKey
    ) throws(StateError) -> [UInt8] {
        let content = secret.withValue { Array($0.utf8) }
        let sealed = try? AES.GCM.seal(
            content,
            using: key.derived(for: .clientSecret),
            authenticating: Array(name.utf8)
        )
        guard let text = sealed?.combined?.base64EncodedString() else {
            throw StateError("\(name) cannot be encrypted")
        }
        return Array("\(mark)\(text)\n".utf8)
    }

    /// - Returns: nil for content that was changed, belongs to another file, or was encrypted with another key.
    package static func open(_ content: [UInt8], named name: String, with key: InstallationKey) -> Secret? {
        guard isSealed(content) else { return nil }
        let text = content.dropFirst(mark.utf8.count).prefix { $0 != UInt8(ascii: "\n") }
        guard let data = Data(base64Encoded: Data(text)), let box = try? AES.GCM.SealedBox(combined: data),
            let opened = try? AES.GCM.open(
                box,
                using: key.derived(for: .clientSecret),
                authenticating: Array(name.utf8)
            )
        else { return nil }
        return String(validating: opened, as: UTF8.self).map { Secret($0) }
    }
}
