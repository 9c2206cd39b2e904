package import GatewayConfiguration
package import GatewayHTTP

/// A credential that is made from the token or the keys of another one, its parent.
///
/// It is decoded before its parent is known, and of use only after ``made(from:)``. A block without a ``parent`` is whole.
package protocol DerivedStrategy: AuthStrategy {
    /// The parent as the block names it; nil for a `downscope`, and for a token that others issue.
    var parent: CredentialReference? { get }

    /// The whole credential.
    func made(from parent: any TokenGrant) throws(UnusableInput) -> any AuthStrategy

    /// The whole credential, if the parent signs with keys from the configuration.
    func made(from signer: Signer) throws(UnusableInput) -> any AuthStrategy
}

extension DerivedStrategy {
    package func made(from signer: Signer) throws(UnusableInput) -> any AuthStrategy {
        throw UnusableInput("\(signer.identity.strategy) has no token that could be exchanged")
    }
}

/// Exchanges a token for a weaker one (RFC 8693).
package protocol DownscopingStrategy: DerivedStrategy {
    /// Reads `downscope` of a route, whose parent is the credential that the route names.
    init?(downscope fields: ConfigFields)
}

/// The name of another credential, and where it stands.
package struct CredentialReference: Hashable, Sendable {
    package let name: String
    package let span: SourceSpan
    package let path: ConfigPath

    package init(name: String, span: SourceSpan, path: ConfigPath) {
        self.name = name
        self.span = span
        self.path = path
    }
}

/// What a weaker token, handed to somebody else, may do.
package struct DownscopeOptions: Hashable, Sendable {
    package var scopes: [String]
    package var resource: String?
    /// The URL of a shared item; anyone with the URL may see the item.
    package var sharedLink: Secret?

    package init(scopes: [String], resource: String? = nil, sharedLink: Secret? = nil) {
        self.scopes = scopes
        self.resource = resource
        self.sharedLink = sharedLink
    }

    /// As the `downscope` of a route would say it.
    private var node: ConfigNode {
        let span = SourceSpan(file: 0, line: 1, column: 1)
        func scalar(_ text: String) -> ConfigNode {
            ConfigNode(.scalar(ConfigNode.Scalar(text: text, isQuoted: true)), at: span)
        }
        var entries = [
            ConfigNode.Entry(key: "scopes", keySpan: span, value: ConfigNode(.sequence(scopes.map(scalar)), at: span))
        ]
        if let resource {
            entries.append(ConfigNode.Entry(key: "resource", keySpan: span, value: scalar(resource)))
        }
        if let sharedLink {
            let value = sharedLink.withValue { scalar($0) }
            entries.append(ConfigNode.Entry(key: "shared_link", keySpan: span, value: value))
        }
        return ConfigNode(.mapping(entries), at: span)
    }

    /// The grant that makes such a token from one of `parent`.
    package func grant(
        of parent: any TokenGrant,
        catalog: StrategyCatalog,
        secrets: any SecretSource
    ) throws(GatewayProblem) -> any TokenGrant {
        guard !scopes.isEmpty else { throw GatewayProblem(.requestRefused, "A weaker token needs at least one scope.") }
        let document = ConfigDocument(files: [], root: node)
        let context = ConfigContext(document: document, secrets: secrets)
        let fields = ConfigFields(node, path: .root, context: context)
        guard let fields, let strategy = catalog.downscoping?.init(downscope: fields) else {
            let reason = context.diagnostics.first.map { "\($0.path): \($0.message)" } ?? "not supported"
            throw GatewayProblem(.requestRefused, "Such a token cannot be requested: \(reason).")
        }
        do throws(UnusableInput) {
            guard case .token(let grant) = try strategy.made(from: parent).behavior else {
                throw UnusableInput("there is nothing to exchange")
            }
            return grant
        } catch {
            throw GatewayProblem(.requestRefused, "Such a token cannot be requested: \(error.message).")
        }
    }
}
