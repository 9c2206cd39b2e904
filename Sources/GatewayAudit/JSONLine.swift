import GatewayCore

/// One line of JSON Lines, put together member by member.
struct JSONLine {
    private var members: [String] = []

    mutating func add(_ name: String, _ text: String?) { add(name, verbatim: text.map(SafeText.json) ?? "null") }
    mutating func add(_ name: String, _ number: Int64?) { add(name, verbatim: number.map(String.init) ?? "null") }
    mutating func add(_ name: String, _ flag: Bool) { add(name, verbatim: "\(flag)") }

    /// - Parameter json: Must be JSON, on one line.
    mutating func add(_ name: String, verbatim json: String) { members.append("\"\(name)\":\(json)") }

    var text: String { "{\(members.joined(separator: ","))}" }
}
