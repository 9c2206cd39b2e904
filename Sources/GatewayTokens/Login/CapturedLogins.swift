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
    /// The code that is being exchanged for a credential: the account is decided by one at a time.
    private var exchanges: [CredentialKey: ExchangeState] = [:]

    private enum ExchangeState {
        case underway
        /// The logins of the credential were ended meanwhile: what the code brings is not taken.
        case endedMeanwhile
    }

    package init(_ captures: [CredentialKey: Capture] = [:]) { self.captures = captures }

    // MARK: A code

    /// Before the code goes out, which spends it. ``end(exchangeFor:)`` follows unless this throws.
    package mutating func begin(exchangeFor key: CredentialKey, by client: String?) throws(CaptureRefusal) {
        guard exchanges[key] == nil else { throw .busy }
        // Whatever the answer says, it could not be compared.
        if let capture = captures[key], capture.account == nil, capture.logins.contains(where: { $0.client != client })
        {
            throw .otherClientsLogin
        }
        exchanges[key] = .underway
    }

    package mutating func end(exchangeFor key: CredentialKey) { exchanges[key] = nil }

    /// Whether the login may take the place of the credential's token.
    ///
    /// - Parameter account: Its account, as a digest; nil where that is not told.
    package func check(_ account: [UInt8]?, of key: CredentialKey, for client: String?) throws(CaptureRefusal) {
        guard exchanges[key] != .endedMeanwhile else { throw .ended }
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
        guard exchanges[key] != .endedMeanwhile else { return false }
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
    /// - Parameter access: The digest of what it presents.
    package func admits(_ access: [UInt8], of client: String?, to key: CredentialKey) -> Bool {
        holds(access, at: \.access, by: client, for: key)
    }

    /// Whether the client may refresh with this.
    package func refreshes(_ refresh: [UInt8], of client: String?, for key: CredentialKey) -> Bool {
        holds(refresh, at: \.refresh, by: client, for: key)
    }

    /// Digests are compared, all of them and to their ends, so the time tells nothing about how near a guess was.
    private func holds(
        _ digest: [UInt8],
        at member: KeyPath<Phantom.Digests, [UInt8]>,
        by client: String?,
        for key: CredentialKey
    ) -> Bool {
        var isFound = false
        for login in captures[key]?.logins ?? [] {
            let known = login.digests[keyPath: member]
            if known.span.isSame(as: digest.span) { isFound = isFound || login.client == client }
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
        // With no logins left, any client may log in, with any account.
        captures[key] = capture.logins.isEmpty ? nil : capture
        return capture.logins.count < before
    }

    /// Ends all logins of a credential, and the one whose code is being exchanged.
    ///
    /// - Returns: Whether there were any.
    package mutating func end(_ key: CredentialKey) -> Bool {
        if exchanges[key] != nil { exchanges[key] = .endedMeanwhile }
        return captures.removeValue(forKey: key) != nil
    }

    /// Ends the logins of all other credentials.
    package mutating func keepOnly(_ keys: Set<CredentialKey>) {
        for key in Set(captures.keys).union(exchanges.keys).subtracting(keys) { _ = end(key) }
    }
}
