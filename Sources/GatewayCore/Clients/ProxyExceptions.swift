/// The hosts that a client asks without its proxy, as `NO_PROXY` lists them.
package struct ProxyExceptions: Hashable, Sendable {
    /// Programs of this machine speak to each other directly.
    private static let local = ["localhost", "127.0.0.1", "::1"]

    package let hosts: [String]

    /// - Parameters:
    ///   - hosts: Those that routes lead to; none of them is excepted.
    ///   - earlier: What `NO_PROXY` said before.
    package init(routed hosts: [String], earlier: String?) {
        let named = (earlier ?? "").split { $0 == "," || $0 == " " }.map(String.init)
        var found: [String] = []
        for entry in Self.local + named where !found.contains(entry) {
            if !hosts.contains(where: { Self.covers(entry, $0) }) { found.append(entry) }
        }
        self.hosts = found
    }

    /// For `NO_PROXY`.
    package var text: String { hosts.joined(separator: ",") }

    /// For `http.nonProxyHosts` of Java, which adds all names of loopback to any list that is not empty.
    package var javaText: String {
        guard Self.local.allSatisfy(hosts.contains) else { return "" }
        return hosts.map { $0.hasPrefix(".") ? "*" + $0 : Origin.urlHost($0) }.joined(separator: "|")
    }

    /// Clients differ in what an entry covers; this is the most that one of them takes it for.
    private static func covers(_ entry: String, _ host: String) -> Bool {
        guard entry != "*" else { return true }
        var name = entry.lowercased()
        if let colon = name.lastIndex(of: ":"), name.firstIndex(of: ":") == colon { name = String(name[..<colon]) }
        if name.hasPrefix("*") { name.removeFirst() }
        if name.hasPrefix(".") { name.removeFirst() }
        if name.hasPrefix("["), name.hasSuffix("]") { name = String(name.dropFirst().dropLast()) }
        return host == name || host.hasSuffix("." + name)
    }
}
