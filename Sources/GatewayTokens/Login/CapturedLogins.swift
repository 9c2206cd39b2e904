import GatewayHTTP

/// The logins that were captured, by the credential whose token they got: who has phantoms, and what may have them next.
///
/// A value without secrets: of phantoms and accounts it has digests.
package struct CapturedLogins: Hashable, Sendable {
    /// What one exchange of a code has brought to one client.
    package struct Login: Hashable, Sendable {
        /// nil where the gateway knows no clients.
        package let client: String?
        package let digests: Phantom.Digests

        package init(client: String?, digests: Phantom.Digests) { (self.client, self.digests) = (client, digests) }
    }

    package struct Capture: Hashable, Sendable {
        /// Whose login it is, as a digest; nil where the authorization server has not told.
        package fileprivate(set) var account: [UInt8]?
        /// The oldest first.
        package fileprivate(set) var logins: [Login]

        package init(account: [UInt8]?, logins: [Login]) { (self.account, self.logins) = (account, logins) }
    }

    /// For one client at one credential. The oldest makes room.
    package static let maximumPerClient = 8
    /// For one credential: a request is compared with all of them.
    package static let maximum = 1024

    package private(set) var captures: [CredentialKey: Capture]
    /// Credentials for which a code is being exchanged: the account is decided by one at a time.
    private var exchanging: Set<CredentialKey> = []
    /// Those of them whose logins were ended meanwhile: what their codes bring is not taken.
    private var overtaken: Set<CredentialKey> = []

    package init(_ captures: [CredentialKey: Capture] = [:]) { self.captures = captures }

    // MARK: A code

    /// Before the code goes out, which spends it. ``end(exchangeFor:)`` follows unless this throws.
    package mutating func begin(exchangeFor key: CredentialKey, by client: String?) throws(CaptureRefusal) {
        guard !exchanging.contains(key) else { throw .busy }
        // Whatever the answer says, it could not be compared.
        if let capture = captures[key], capture.account == nil, capture.logins.contains(where: { $0.client != client })
        {
            throw .otherClientsLogin
        }
        exchanging.insert(key)
    }

    package mutating func end(exchangeFor key: CredentialKey) {
        exchanging.remove(key)
        overtaken.remove(key)
    }

    /// Whether the login may take the place of the credential's token.
    ///
    /// - Parameter account: Its account, as a digest; nil where that is not told.
    package func check(_ account: [UInt8]?, of key: CredentialKey, for client: String?) throws(CaptureRefusal) {
        guard !overtaken.contains(key) else { throw .ended }
        guard let capture = captures[key], !capture.logins.isEmpty else { return }
        if let known = capture.account, let account {
            guard known.span.isSame(as: account.span) else { throw .otherAccount }
        } else if capture.logins.contains(where: { $0.client != client }) {
            throw .otherClientsLogin
        }
    }

    /// The token of the login is stored. What ``check(_:of:for:)`` refused must not come here.
    ///
    /// - Returns: false if the logins of the credential were ended since its code went out; this one is not added then.
    @discardableResult
    package mutating func add(_ login: Login, account: [UInt8]?, to key: CredentialKey) -> Bool {
        guard !overtaken.contains(key) else { return false }
        var capture = captures[key] ?? Capture(account: account, logins: [])
        // It may be another account: the earlier phantoms of the client must not act for it.
        if capture.account == nil || account == nil { capture = Capture(account: account, logins: []) }
        capture.logins.append(login)
        let own = capture.logins.indices.filter { capture.logins[$0].client == login.client }
        if own.count > Self.maximumPerClient || capture.logins.count > Self.maximum {
            capture.logins.remove(at: own.count > Self.maximumPerClient ? own[0] : 0)
        }
        captures[key] = capture
        assert(capture.logins.count <= Self.maximum, "A credential has too many captured logins.")
        return true
    }

    // MARK: A phantom

    /// Whether the client may use the credential.
    ///
    /// Digests are compared, all of them and to their ends, so the time tells nothing about how near a guess was.
    ///
    /// - Parameter access: The digest of what it presents.
    package func admits(_ access: [UInt8], of client: String?, to key: CredentialKey) -> Bool {
        var isFound = false
        for login in captures[key]?.logins ?? [] where login.digests.access.span.isSame(as: access.span) {
            isFound = isFound || login.client == client
        }
        return isFound
    }

    /// Whether the client may refresh with this.
    package func refreshes(_ refresh: [UInt8], of client: String?, for key: CredentialKey) -> Bool {
        var isFound = false
        for login in captures[key]?.logins ?? [] where login.digests.refresh.span.isSame(as: refresh.span) {
            isFound = isFound || login.client == client
        }
        return isFound
    }

    // MARK: The end

    /// Ends the login of this client that has a phantom with this digest, of either kind.
    ///
    /// - Returns: Whether there was one.
    package mutating func revoke(_ digest: [UInt8], of client: String?, for key: CredentialKey) -> Bool {
        guard var capture = captures[key] else { return false }
        let before = capture.logins.count
        capture.logins.removeAll { login in
            login.client == client
                && (login.digests.access.span.isSame(as: digest.span)
                    || login.digests.refresh.span.isSame(as: digest.span))
        }
        // Without logins, anybody may begin anew, with whatever account.
        captures[key] = capture.logins.isEmpty ? nil : capture
        return capture.logins.count < before
    }

    /// Ends all logins of a credential, and the one whose code is being exchanged.
    ///
    /// - Returns: Whether there were any.
    package mutating func end(_ key: CredentialKey) -> Bool {
        if exchanging.contains(key) { overtaken.insert(key) }
        return captures.removeValue(forKey: key) != nil
    }
}
