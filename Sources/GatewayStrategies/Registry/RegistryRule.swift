import GatewayHTTP

/// Which challenges of a registry are answered (token authentication of the distribution project), and with a token for what.
///
/// `Bearer realm="https://auth.example/token",service="registry.example",scope="repository:library/redis:pull"` is answered with a
/// token that `https://auth.example/token?service=registry.example&scope=repository%3Alibrary%2Fredis%3Apull` gives. That URL names the token.
struct RegistryRule: Hashable {
    /// Longer URLs are not asked for.
    static let longest = 2048

    /// `host` or `host:port` of the token servers. Nothing is sent to others, whatever an upstream says.
    private let realmHosts: [String]

    init(realmHosts: [String]) { self.realmHosts = realmHosts }

    /// The URL of the token that the challenges ask for; nil where none of them may be answered.
    func tokenURL(answering challenges: [AuthChallenge]) -> String? {
        challenges.lazy.filter { $0.scheme == "bearer" }.compactMap(tokenURL).first
    }

    private func tokenURL(_ challenge: AuthChallenge) -> String? {
        guard let realm = challenge.parameters["realm"] else { return nil }
        var parameters: [(String, String)] = []
        if let service = challenge.parameters["service"] { parameters.append(("service", service)) }
        let scopes = challenge.parameters["scope"]?.split(separator: " ") ?? []
        parameters += scopes.map { ("scope", String($0)) }
        let query = parameters.map { "\($0.0)=\(FormEncoding.encode($0.1))" }.joined(separator: "&")
        let separator = query.isEmpty ? "" : realm.contains("?") ? "&" : "?"
        let url = realm + separator + query
        return address(of: url) == nil ? nil : url
    }

    /// nil where it leads to another host, or would be sent in clear.
    func address(of tokenURL: String) -> AuthorityURL? {
        guard tokenURL.utf8.count <= Self.longest, tokenURL.utf8.allSatisfy(Self.isPlain),
            let url = try? AuthorityURL(tokenURL), allows(url.origin)
        else { return nil }
        return url
    }

    /// The URL is part of a token's name, which people paste into a shell: nothing in it means anything there within quotes.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: Array("-._~%:/?&=+,@[]".utf8).contains(byte)
        }
    }

    private func allows(_ origin: Origin) -> Bool {
        realmHosts.contains { Origin(scheme: origin.scheme, authority: $0) == origin }
    }

    /// The repository that a request is for, and whether it reads or writes there: a registry asks for the same token for both
    /// the manifest and the layers of an image.
    ///
    /// - Returns: Empty where the path names no repository.
    static func repositoryUse(method: String, path: String) -> String {
        let segments = path.split(separator: "/")
        guard let version = segments.firstIndex(of: "v2") else { return "" }
        let rest = segments[(version + 1)...]
        guard let resource = rest.lastIndex(where: { resources.contains(String($0)) }), resource > rest.startIndex
        else {
            return ""
        }
        let isRead = method == "GET" || method == "HEAD"
        return "\(rest[..<resource].joined(separator: "/")):\(isRead ? "pull" : "push")"
    }

    private static let resources: Set<String> = ["manifests", "blobs", "tags", "referrers"]
}
