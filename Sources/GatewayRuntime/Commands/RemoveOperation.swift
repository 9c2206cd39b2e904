import GatewayConfiguration
import GatewayCore

/// What `remove` does: takes a route or a credential out of the configuration.
package struct RemoveOperation: Sendable {
    package enum Kind: Sendable {
        case route
        case credential
    }

    private let path: String
    private let name: String
    private let kind: Kind?
    private let withRoutes: Bool

    /// - Parameters:
    ///   - configuration: The path of the file, as messages shall print it.
    ///   - kind: nil when the name says it.
    ///   - withRoutes: The routes that use the credential go with it.
    package init(configuration: String, name: String, kind: Kind?, withRoutes: Bool) {
        path = configuration
        self.name = name
        self.kind = kind
        self.withRoutes = withRoutes
    }

    /// - Parameter isConfirmed: Writes without a question.
    /// - Returns: What is for standard output.
    package func run(isConfirmed: Bool) async throws(CommandFailure) -> String {
        let editor = try ConfigurationEditor(path)
        let found: Kind
        if let kind { found = kind } else { found = try foundKind(editor.root) }
        switch found {
        case .route: try editor.remove(name, from: "routes")
        case .credential:
            let uses = CredentialUses(of: name, in: editor.root)
            try requireUnused(uses)
            for route in uses.routes { try editor.remove(route, from: "routes") }
            try editor.remove(name, from: "credentials")
        }
        let written = try await EditOutcome(editor, at: path).apply(isConfirmed: isConfirmed)
        // A gateway that refuses the new configuration still uses the old one.
        let removesSecrets = withRoutes && written.gateway != .refuses
        return written.text + Self.clearSecrets(editor, removes: removesSecrets)
    }

    /// Secrets that were pasted for what is gone.
    ///
    /// - Parameter removes: false only names them: tokens may still have to be revoked with them.
    private static func clearSecrets(_ editor: ConfigurationEditor, removes: Bool) -> String {
        let secrets = SecretFiles(stateDirectory: editor.stateDirectory, folder: editor.folder)
        let unused = secrets.names.sorted().filter { editor.namesNoLonger("\(secrets.shownDirectory)/\($0)") }
        let gone = removes ? secrets.remove(unused) : []
        let left = unused.filter { !gone.contains($0) }
        func list(_ names: [String], _ verb: String) -> String {
            names.map { "  \(verb)\(ShellWord.quoted("\(secrets.directory)/\($0)"))\n" }.joined()
        }
        return (gone.isEmpty ? "" : "Removed the secrets that were pasted for it:\n" + list(gone, ""))
            + (left.isEmpty ? "" : "Nothing uses these secrets now. Remove them:\n" + list(left, "rm "))
    }

    private func foundKind(_ root: ConfigNode) throws(CommandFailure) -> Kind {
        let routes = root.entries(of: "routes").map(\.key)
        let credentials = root.entries(of: "credentials").map(\.key)
        switch (routes.contains(name), credentials.contains(name)) {
        case (true, false): return .route
        case (false, true): return .credential
        case (true, true):
            if withRoutes { return .credential }
            throw CommandFailure(
                .usage,
                """
                \(shown) is a route and a credential; add --route or --credential, or remove both, and all routes of it:
                  \(GatewayCommand.line("remove", LogText.clean(name), "--with-routes"))
                """
            )
        case (false, false):
            let hint = Suggestion.hint(for: name, in: routes + credentials)
            throw CommandFailure(.failed, "no route or credential is named \(shown)\(hint)")
        }
    }

    private func requireUnused(_ uses: CredentialUses) throws(CommandFailure) {
        guard uses.credentials.isEmpty else {
            let names = uses.credentials.map(LogText.clean).joined(separator: ", ")
            throw CommandFailure(.failed, "\(shown) is the parent of \(names); remove that first")
        }
        guard !uses.routes.isEmpty, !withRoutes else { return }
        let names = uses.routes.map(LogText.clean).joined(separator: ", ")
        let noun = uses.routes.count == 1 ? "the route" : "the routes"
        throw CommandFailure(.failed, "\(shown) is used by \(noun) \(names); add --with-routes to remove them, too")
    }

    private var shown: String { "\"\(LogText.clean(name))\"" }
}
