import GatewayApp
import GatewayConfiguration
import GatewayHTTP
import GatewayTokenClient

/// The registration of a credential's client (RFC 7591), as `add mcp` has written it, so that a login can repeat it.
struct ClientRegistration: Sendable {
    private let name: String
    private let path: String
    private let url: AuthorityURL
    private let redirect: String
    private let scopes: [String]
    private let method: ClientMethod
    /// The file of the client's secret, below ``SecretFiles/directory``; nil for a public client.
    private let secretFile: String?

    /// nil where the credential has no `registration_url`, or cannot be written by a command.
    ///
    /// - Parameter path: The configuration.
    init?(of name: String, in path: String) {
        guard let editor = try? ConfigurationEditor(path) else { return nil }
        self.init(of: name, in: editor.root, path: path, secretsIn: editor.secretFiles.shownDirectory)
    }

    /// - Parameter directory: Where a command puts secrets, as the configuration names it.
    init?(of name: String, in root: ConfigNode, path: String, secretsIn directory: String) {
        guard let credential = root.entries(of: "credentials").first(where: { $0.key == name })?.value,
            let url = credential.text("registration_url").flatMap({ try? AuthorityURL($0) }),
            credential.text("client_id") != nil, let redirect = credential.text("redirect_uri")
        else { return nil }
        let method = credential.text("client_auth").flatMap(ClientMethod.init(key:))
        secretFile = credential.value(of: "client_secret")?.text("file").flatMap { file in
            guard file.hasPrefix("\(directory)/") else { return nil }
            let name = file.dropFirst(directory.count + 1)
            return name.contains("/") ? nil : String(name)
        }
        guard (secretFile == nil) == (credential.value(of: "client_secret") == nil) else { return nil }
        (self.name, self.path, self.url, self.redirect) = (name, path, url, redirect)
        self.method = method ?? (secretFile == nil ? .none : .post)
        guard case .sequence(let nodes)? = credential.value(of: "scopes")?.content else {
            scopes = []
            return
        }
        scopes = nodes.compactMap(\.ownText)
    }

    /// Registers the client again, writes the new one into the configuration, and has a running gateway read it.
    ///
    /// - Parameter added: What the login asks for besides the scopes of the configuration. Some servers refuse scopes that a client has
    ///   not registered.
    func `repeat`(askingAlsoFor added: [String]) async throws(CommandFailure) {
        let discovery = LoginDiscovery(
            OutgoingHTTP(version: GatewayVersion.current),
            DiscoveryRule(typed: [url]),
            through: (try? ConfigurationFile(path: path, consequence: ""))?.plan.proxy,
            // Nothing is discovered: the configuration names the address.
            isPublic: { _ in true }
        )
        let client: LoginClient
        do throws(UnusableInput) {
            // Without a scope, the server registers those that it allows.
            let wanted = scopes.isEmpty ? [] : scopes.addingNew(added)
            client = try await discovery.register(at: url, as: method, scopes: wanted, redirectingTo: redirect)
        } catch {
            throw CommandFailure(.failed, LogText.clean(error.message))
        }
        guard client.method == method else {
            let removal = GatewayCommand.line("remove", name)
            throw CommandFailure(
                .failed,
                "\(url.origin.authority) wants the client to authenticate with \(client.method.rawValue) from now on."
                    + " Add the server anew; first: \(removal)"
            )
        }
        let editor = try ConfigurationEditor(path)
        var files = editor.secretFiles
        if let secretFile, let secret = client.secret {
            _ = files.remove([secretFile])
            _ = try files.add(secret, as: secretFile, isSealed: true)
        }
        try editor.set("client_id", of: name, in: "credentials", to: client.id)
        let written = try await EditOutcome(editor: editor, path: path).apply(isConfirmed: true, with: files)
        Console.write(written.text)
        guard written.gateway != .refuses else {
            throw CommandFailure(.failed, "the client is registered again, and the gateway does not use it yet")
        }
    }
}

extension ConfigNode {
    /// The text of a scalar that holds nothing of the environment.
    fileprivate var ownText: String? {
        guard case .scalar(let scalar) = content, !scalar.isInterpolated, !scalar.isNull else { return nil }
        return scalar.text
    }

    fileprivate func text(_ key: String) -> String? { value(of: key)?.ownText }
}
