/// What a listener does with servers that no route leads to.
package struct ConnectPlan: Hashable, Sendable {
    package enum Unrouted: String, CaseIterable, Sendable {
        case refuse
        /// Bytes of a CONNECT pass as they are, and plain requests pass, too. No credential is added.
        case tunnel
    }

    /// What metrics and the access log call the route of requests to servers without one.
    package static let unroutedName = "(unrouted)"

    /// Servers that clients may reach.
    package enum Destination: Hashable, Sendable, CustomStringConvertible {
        /// At whatever addresses it has.
        case host(String)
        /// Every name below that one, at public addresses. Begins with a dot; empty for all names.
        case namesBelow(String)
        case network(IPNetwork)

        /// `api.example.com`, `*.example.com`, `*`, `192.0.2.7`, `10.0.0.0/8` or `fd00::/8`.
        package init?(_ text: String) {
            let text = text.lowercased()
            if let network = IPNetwork(text) {
                self = .network(network)
            } else if let address = IPAddress(text) {
                self = .network(IPNetwork(address))
            } else if text == "*" {
                self = .namesBelow("")
            } else {
                let name = text.hasPrefix("*.") ? String(text.dropFirst(2)) : text
                guard Self.isName(name) else { return nil }
                self = name == text ? .host(name) : .namesBelow(".\(name)")
            }
        }

        /// What systems read as a number is no name: `2130706433` and `0x7f.1` are 127.0.0.1.
        private static func isName(_ text: String) -> Bool {
            guard !text.contains(":"), !text.contains("["), Origin(scheme: .https, authority: text) != nil,
                let last = text.split(separator: ".", omittingEmptySubsequences: false).last
            else { return false }
            return last.utf8.contains { !$0.isDigit } && !last.hasPrefix("0x")
        }

        package var description: String {
            switch self {
            case .host(let name): name
            case .namesBelow(let suffix): "*\(suffix)"
            case .network(let network):
                network.isAddress ? network.address.description : "\(network.address)/\(network.prefix)"
            }
        }
    }

    package var unrouted: Unrouted
    /// Empty: every server at public addresses.
    package var allow: [Destination]
    package var ports: [Int]

    package init(unrouted: Unrouted = .refuse, allow: [Destination] = [], ports: [Int] = [443]) {
        self.unrouted = unrouted
        self.allow = allow
        self.ports = ports
    }
}
