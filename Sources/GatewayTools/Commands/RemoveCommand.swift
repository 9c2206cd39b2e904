import ArgumentParser
import GatewayApp
import GatewayConfiguration
import GatewayHTTP

struct RemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Remove a route or a credential from the configuration.",
        discussion: """
            Examples:
              authgateway remove reports
              authgateway remove box-service --with-routes
              authgateway remove box --credential --yes

            Shows the difference, checks the result and asks before it writes. Only the
            lines of the entry and its own comments go; also from a file that is included.
            A credential that routes use stays. --with-routes also removes those routes,
            and the files in which `add` kept secrets for them.

            Tokens that were stored for a credential are not revoked. Do that before:
              authgateway token revoke NAME

            A running gateway loads it. Exit code 1 when there is no
            such name or it is in use, 3 when the result would be no valid configuration.
            """
    )

    @Argument(help: "The name of a route or a credential.")
    var name: String

    @Flag(help: "The name is that of a route.")
    var route = false

    @Flag(help: "The name is that of a credential.")
    var credential = false

    @Flag(name: .customLong("with-routes"), help: "Remove the routes that use the credential, too.")
    var withRoutes = false

    @OptionGroup var yes: YesFlag
    @OptionGroup var config: ConfigOption

    func validate() throws {
        if route, credential { throw ValidationError("Give --route or --credential, not both.") }
        if route, withRoutes { throw ValidationError("--with-routes can only be used with a credential.") }
    }

    private enum Kind {
        case route
        case credential
    }

    func run() async throws(CommandFailure) {
        let editor = try ConfigurationEditor(config.path)
        switch try kind(in: editor.root) {
        case .route: try editor.remove(name, from: "routes")
        case .credential:
            let uses = CredentialUses(of: name, in: editor.root)
            try requireUnused(uses)
            for route in uses.routes { try editor.remove(route, from: "routes") }
            try editor.remove(name, from: "credentials")
        }
        let written = try await EditOutcome(editor: editor, path: config.path).apply(isConfirmed: yes.isGiven)
        // A gateway that refuses the new configuration still uses the old one.
        let removesSecrets = withRoutes && written.gateway != .refuses
        Console.write(written.text + Self.clearSecrets(editor, removes: removesSecrets))
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

    private func kind(in root: ConfigNode) throws(CommandFailure) -> Kind {
        if route { return .route }
        if credential { return .credential }
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
