package import GatewayHTTP
import GatewayTokens

/// A request that changes nothing and shows whose credential a route sends (`whoami`).
package struct WhoAmI: Hashable, Sendable {
    package enum Method: String, CaseIterable, Sendable {
        case get = "GET"
        case head = "HEAD"
        case post = "POST"
    }

    package let method: Method
    /// The path after the upstream's own, with a query if there is one. Begins with `/`.
    package let path: String
    /// Where the name stands in the JSON of the answer.
    package let shows: JSONPointer?

    package init(method: Method = .get, path: String, shows: JSONPointer? = nil) {
        self.method = method
        self.path = path
        self.shows = shows
    }
}

/// What the service said to a ``WhoAmI``.
package enum WhoAmIAnswer: Equatable, Sendable {
    /// - Parameter name: nil where the answer shows none.
    case known(name: String?)
    /// It takes no request with this credential.
    case refused(status: Int)
    /// The answer says nothing about the credential.
    case unclear(status: Int)
    /// No answer of the service came.
    case failed(String)

    static let longestName = 100
    static let longestReason = 200

    /// - Parameters:
    ///   - body: nil unless it is JSON.
    ///   - secrets: What the request held: a service may repeat it.
    package init(status: Int, body: JSONValue?, to request: WhoAmI, hiding secrets: [Secret]) {
        switch status {
        case 200...299:
            let value = request.shows.flatMap { pointer in body.flatMap { pointer.value(in: $0) } }
            self = .known(name: value.flatMap { Self.name($0, hiding: secrets) })
        case 401, 403: self = .refused(status: status)
        default: self = .unclear(status: status)
        }
    }

    private static func name(_ value: JSONValue, hiding secrets: [Secret]) -> String? {
        switch value {
        case .string(let text): AuthorityText(hiding: secrets).shown(text, limit: longestName)
        case .number(let number): number.whole.map { String($0) }
        default: nil
        }
    }

    /// The reason without its full stop: the caller ends the sentence.
    private static func part(of reason: String) -> Substring {
        (reason.last == "." ? reason.dropLast() : reason[...]).prefix(longestReason)
    }

    package var isGood: Bool { if case .known = self { true } else { false } }

    /// For people, without the name of the route. The name in it is not escaped.
    package func text(to request: WhoAmI) -> String {
        let asked = "\(request.method.rawValue) \(request.path)"
        return switch self {
        case .known(let name?): "\(asked): the credential is that of \(name)"
        case .known(nil): "\(asked): the service accepts the credential"
        case .refused(let status): "\(asked): the service rejects the credential (\(status))"
        case .unclear(let status): "\(asked): the service answers \(status), which says nothing about the credential"
        case .failed(let reason): "\(asked): \(Self.part(of: reason))"
        }
    }
}

extension RoutePlan {
    /// How the request of ``whoami`` is sent to a listener of the gateway.
    ///
    /// - Parameter authority: The host and port of the listener.
    package func target(of whoami: WhoAmI, at authority: String) -> (host: String, target: String) {
        let path = matchPath == "/" ? whoami.path : matchPath + whoami.path
        guard matchesAll, let host = matchHosts.first else { return (authority, path) }
        return (host.replacing("*", with: "whoami"), path)
    }
}
