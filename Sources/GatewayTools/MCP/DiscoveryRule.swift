package import GatewayHTTP

/// Which of the URLs that servers name the gateway may use: https, and on the public internet.
///
/// A server of the private network would otherwise be asked on behalf of whoever writes the metadata. A host that a person typed may be
/// anywhere, and plain `http` is for loopback alone (``AuthorityURL``).
package struct DiscoveryRule: Hashable, Sendable {
    package static let maximumURLBytes = 2048

    private let typedHosts: Set<String>
    private let hasTypedLoopback: Bool

    /// - Parameter typed: The URLs that a person typed.
    package init(typed: [AuthorityURL]) {
        typedHosts = Set(typed.map(\.origin.host))
        hasTypedLoopback = typed.contains(where: \.origin.isLoopback)
    }

    /// - Parameter name: What the URL is, as a message names it: `token_endpoint`.
    package func url(_ text: String, named name: String) throws(UnusableInput) -> AuthorityURL {
        guard text.utf8.count <= Self.maximumURLBytes else {
            throw UnusableInput("\(name) is longer than \(Self.maximumURLBytes) bytes")
        }
        let url: AuthorityURL
        do throws(AuthorityURL.Refusal) {
            url = try AuthorityURL(text)
        } catch {
            // It may hold a password.
            guard !text.contains("@") else { throw UnusableInput("\(name): \(error.message)") }
            throw UnusableInput("\(name) is \(JSONString.quoted(text, limit: 200) { $0.isHarmless }): \(error.message)")
        }
        guard isTyped(url.origin) || Self.mayBePublic(url.origin) else { throw Self.notPublic(url, named: name) }
        return url
    }

    /// Whether the addresses of its name have to be public, which only a lookup shows.
    package func needsLookup(_ url: AuthorityURL) -> Bool { !isTyped(url.origin) && !url.origin.isAddress }

    package static func notPublic(_ url: AuthorityURL, named name: String) -> UnusableInput {
        UnusableInput(
            "\(name) is \(url), which is not on the public internet. If you trust this authorization server, name it yourself"
                + " with --issuer"
        )
    }

    private func isTyped(_ origin: Origin) -> Bool {
        typedHosts.contains(origin.host) || hasTypedLoopback && origin.isLoopback
    }

    private static func mayBePublic(_ origin: Origin) -> Bool {
        guard !origin.isAddress else { return IPAddress(origin.host).map(PublicAddress.contains) ?? false }
        // No public domain has one label, or a last label that begins with a digit: systems read 127.1 and 0x7f000001 as addresses.
        let labels = origin.host.split(separator: ".")
        guard labels.count > 1, !origin.isLoopback, let first = labels.last?.first else { return false }
        return !first.isNumber
    }
}

extension AuthorityURL {
    /// Where a protected resource describes itself: for its path, then for the whole host (RFC 9728 section 3.1; the specification of MCP
    /// of 2025-11-25, "Protected Resource Metadata Discovery Requirements").
    package var resourceMetadata: [String] {
        let root = "\(origin)/.well-known/oauth-protected-resource"
        return resourcePath.isEmpty ? [root] : [root + resourcePath, root]
    }

    /// Where an issuer describes itself, in the order in which MCP clients ask: RFC 8414 section 3.1, then OpenID Connect Discovery with
    /// the path inserted (RFC 8414 section 5) and appended.
    package var issuerMetadata: [String] {
        let (path, wellKnown) = (resourcePath, "\(origin)/.well-known/")
        let inserted = [wellKnown + "oauth-authorization-server" + path, wellKnown + "openid-configuration" + path]
        return path.isEmpty ? inserted : inserted + ["\(origin)\(path)/.well-known/openid-configuration"]
    }

    /// The path without a slash at its end; empty for the root.
    package var resourcePath: String {
        let path = target.prefix { $0 != "?" }
        return path.hasSuffix("/") ? String(path.dropLast()) : String(path)
    }

    package var hasQuery: Bool { text.contains("?") }
}
