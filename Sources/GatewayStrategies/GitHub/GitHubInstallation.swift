import GatewayCore

/// Where an app is installed, and what its token may do there.
struct GitHubInstallation: Sendable {
    enum Place: Hashable, Sendable {
        case id(Int)
        /// An organization or a user; the installation is looked up.
        case owner(String)
    }

    let place: Place
    let repositories: [String]
    let permissions: [String: String]

    /// Reads `installation_id` or `owner`, `repositories` and `permissions`.
    init?(in fields: ConfigFields) {
        let errors = fields.context.errorCount
        let id = fields.integer("installation_id", in: 1...(1 << 52))
        let owner = fields.string("owner")
        if fields.has("installation_id") == fields.has("owner") {
            fields.error("an installation is named by exactly one of installation_id and owner")
        }
        if let owner, !Self.isOwner(owner) {
            fields.error("owner", "is not the name of an organization or a user: letters, digits, - and _")
        }
        repositories = fields.strings("repositories") ?? []
        if repositories.contains(where: { $0.contains("/") }) {
            fields.error("repositories", "write the names without the owner")
        }
        if repositories.count > 500 { fields.error("repositories", "GitHub takes at most 500") }
        let pairs = fields.stringMap("permissions") ?? []
        permissions = Dictionary(pairs.map { ($0.name, $0.value) }) { first, _ in first }
        for (name, value) in pairs where !["read", "write", "admin"].contains(value) {
            fields.error("permissions", "\(name): expected read, write or admin")
        }
        guard let place = id.map(Place.id) ?? owner.map(Place.owner), fields.context.errorCount == errors else {
            return nil
        }
        self.place = place
    }

    private static func isOwner(_ text: String) -> Bool {
        text.utf8.count <= 100
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: true
                default: false
                }
            }
    }

    /// As people read it.
    var name: String {
        switch place {
        case .id(let id): "installation:\(id)"
        case .owner(let owner): owner
        }
    }

    /// What narrows the token; none where it may do all that the installation may.
    var body: TokenRequest.Body {
        var members: [String: JSONValue] = [:]
        if !repositories.isEmpty { members["repositories"] = .array(repositories.map { .string($0) }) }
        if !permissions.isEmpty { members["permissions"] = .object(permissions.mapValues { .string($0) }) }
        guard !members.isEmpty, let bytes = try? JSONValue.object(members).bytes() else { return .none }
        return .content(type: "application/json", Secret(String(decoding: bytes, as: UTF8.self)))
    }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("installation", name)
        for (index, repository) in repositories.enumerated() { identity.add("repositories.\(index)", repository) }
        for (name, value) in permissions { identity.add("permissions.\(name)", value) }
    }
}
