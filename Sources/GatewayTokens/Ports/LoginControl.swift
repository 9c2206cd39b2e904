package import GatewayHTTP

/// Logins by people: begun, answered by a browser or by a paste, over after one answer or at their deadline.
package protocol LoginControl: Sendable {
    /// Begins a login; one that is under way for the same credential ends.
    func begin(_ order: LoginOrder) async -> Result<LoginInvitation, GatewayProblem>

    /// Takes what a person pasted; nil when there is no such login.
    func answer(_ id: String, with text: String) async -> LoginProgress?

    /// nil when there is no such login, or it was over long ago.
    func progress(_ id: String) async -> LoginProgress?

    func cancel(_ id: String) async
}

package struct LoginOrder: Hashable, Sendable {
    package enum Way: String, CaseIterable, Sendable {
        /// A browser of this machine comes back to a listener; where none can be reached, the answer is pasted.
        case browser
        /// The answer is pasted, although a listener could wait for it.
        case paste
        /// The person enters a code on another device (RFC 8628).
        case device
    }

    package var credential: String
    package var way: Way
    package var timeout: Duration
    /// What to ask for beside the scopes of the configuration and those of earlier logins.
    package var scopes: [String]

    package static let timeouts: ClosedRange<Duration> = .seconds(1) ... .seconds(1800)
    static let defaultTimeout: Duration = .seconds(300)

    package init(
        credential: String,
        way: Way = .browser,
        timeout: Duration = Self.defaultTimeout,
        scopes: [String] = []
    ) {
        self.credential = credential
        self.way = way
        self.timeout = timeout
        self.scopes = scopes
    }
}

/// What a person needs to log in. The page's address holds the state of the attempt: show it only to this person, and
/// never log it.
package struct LoginInvitation: Hashable, Sendable, Codable {
    /// 128 random bits. A caller that knows them may answer.
    package var id: String
    package var credential: String
    package var page: String
    /// A short address of this machine that leads to `page`, once; for the command line of a browser. nil without a
    /// listener.
    package var start: String?
    /// Where the browser is sent; with a listener there when `isManual` is false.
    package var redirect: String
    package var isManual: Bool
    /// What the person types on the page; nil for a login with a browser.
    package var code: String?
    package var timeoutSeconds: Int

    package init(
        id: String,
        credential: String,
        page: String,
        start: String?,
        redirect: String,
        isManual: Bool,
        code: String? = nil,
        timeoutSeconds: Int
    ) {
        self.id = id
        self.credential = credential
        self.page = page
        self.start = start
        self.redirect = redirect
        self.isManual = isManual
        self.code = code
        self.timeoutSeconds = timeoutSeconds
    }
}

package struct LoginProgress: Hashable, Sendable, Codable {
    package var isOver: Bool
    /// The credential's new state, once the login has succeeded.
    package var token: TokenStatus?
    /// Why it failed, in words for a person.
    package var problem: String?
    /// `error_code` in the audit log: from the allow-list, or why the authorization server could not be asked.
    package var code: String?

    package static let waiting = LoginProgress(isOver: false)

    package init(isOver: Bool, token: TokenStatus? = nil, problem: String? = nil, code: String? = nil) {
        self.isOver = isOver
        self.token = token
        self.problem = problem
        self.code = code
    }
}
