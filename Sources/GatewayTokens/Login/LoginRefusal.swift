package import GatewayHTTP

/// Why what the browser came back with is not the answer to the login that was begun.
package enum LoginRefusal: Error, Hashable, Sendable {
    /// Neither an address nor a code.
    case unreadable
    /// An address, but not the one that the authority was told to send the browser to.
    case elsewhere(expected: String)
    case wrongState
    case missingState
    case wrongIssuer
    /// The authority's `error`, from the allow-list.
    case denied(String)
    /// Neither a code nor an error.
    case incomplete(missing: String)
    /// A code alone, where only the whole address shows that it answers this login.
    case addressNeeded

    package var problem: GatewayProblem {
        GatewayProblem(.loginFailed, "\(words) Nothing was changed; begin a new login.", cause: cause)
    }

    /// Not an answer to this login at all, so that the right one may yet come: any page can send a browser somewhere.
    package var isForeign: Bool {
        switch self {
        case .wrongState, .missingState, .unreadable: true
        case .elsewhere, .wrongIssuer, .denied, .incomplete, .addressNeeded: false
        }
    }

    /// For the audit log.
    package var reason: String {
        switch self {
        case .unreadable: "unreadable"
        case .elsewhere: "other_address"
        case .wrongState, .missingState: "wrong_state"
        case .wrongIssuer: "wrong_issuer"
        case .denied: "denied"
        case .incomplete: "incomplete"
        case .addressNeeded: "address_needed"
        }
    }

    private var cause: GatewayProblem.Cause? {
        if case .denied(let code) = self { GatewayProblem.Cause(code: code) } else { nil }
    }

    /// What happened, without what to do.
    package var words: String {
        switch self {
        case .unreadable:
            "This is neither the address that the browser ended on nor a code."
        case .elsewhere(let expected):
            "The browser ended on another address than expected: it has to begin with \(expected)."
        case .wrongState:
            "The answer does not belong to the login that was begun here (wrong state): it is from an older attempt, or"
                + " somebody else sent it."
        case .missingState:
            "The answer does not belong to the login that was begun here (no state): somebody else sent it, or the address was"
                + " not copied whole, in one line."
        case .wrongIssuer:
            "The answer names another authority than the issuer of the configuration, or none."
        case .denied("access_denied"):
            "The login was denied at the authority (access_denied)."
        case .denied("other"):
            "The authority refused the login with an error of its own."
        case .denied(let code):
            "The authority refused the login (\(code)): check client_id, redirect_uri and scopes."
        case .incomplete(let missing):
            "There is no \(missing) in the address that the browser ended on."
        case .addressNeeded:
            "Without PKCE a code alone is not enough: paste the whole address that the browser ended on."
        }
    }
}
