package import GatewayHTTP

/// Everything that makes two tokens the same token: strategy, subject and every input of the grant.
///
/// Routes whose credentials have equal identities share one token. An input that is left out here lets one
/// credential be served another one's token, so strategies list them all, secrets included.
package struct GrantIdentity: Hashable, Sendable, CustomStringConvertible {
    package struct Input: Hashable, Sendable {
        package let name: String
        package let value: Secret
        /// Whether no answer may repeat it.
        package let isSecret: Bool
    }

    package let strategy: String
    /// Whom the token speaks for, for example `enterprise:12345`; shown to people.
    package let subject: String?
    package private(set) var inputs: [Input] = []

    package init(strategy: String, subject: String?) {
        self.strategy = strategy
        self.subject = subject
    }

    package mutating func add(_ name: String, _ value: String?) {
        if let value { inputs.append(Input(name: name, value: Secret(value), isSecret: false)) }
    }

    package mutating func add(_ name: String, secret value: Secret?) {
        if let value { inputs.append(Input(name: name, value: value, isSecret: true)) }
    }

    /// Adds the inputs of the grant that this one depends on.
    package mutating func add(parent: GrantIdentity) {
        inputs += parent.inputs.map { Input(name: "parent.\($0.name)", value: $0.value, isSecret: $0.isSecret) }
    }

    package var secrets: [Secret] {
        inputs.filter { $0.isSecret && !TokenRequest.isPublic(String($0.name.split(separator: ".").last ?? "")) }
            .map(\.value)
    }

    package var description: String { subject.map { "\(strategy)[\($0)]" } ?? strategy }

    /// The bytes that are hashed with the installation's key.
    package var canonicalBytes: [UInt8] {
        var bytes = CanonicalBytes()
        bytes.add(strategy)
        bytes.add(subject ?? "")
        for input in inputs.sorted(by: { $0.name < $1.name }) {
            bytes.add(input.name)
            bytes.add(input.value)
        }
        return bytes.bytes
    }
}

/// The keyed digest of a ``GrantIdentity``: names a token in the store without revealing an input.
package struct CredentialKey: Hashable, Sendable, CustomStringConvertible {
    /// Lower-case hexadecimal.
    package let digest: String
    package init(digest: String) { self.digest = digest }
    package var description: String { digest }
}
