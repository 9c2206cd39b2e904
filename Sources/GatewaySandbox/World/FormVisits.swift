/// The forms of a web application that were shown and not yet sent: each has a CSRF token, which counts once.
///
/// A thousand of them at most, the oldest are forgotten first.
struct FormVisits: Sendable {
    private static let capacity = 1000
    private var tokens: [String: String] = [:]
    private var order: [String] = []

    /// - Parameter visitor: The cookie that the form belongs to; nil for somebody new.
    mutating func open(_ visitor: String?) -> (visit: String, csrf: String) {
        let visit = visitor ?? Self.random()
        let csrf = Self.random()
        if tokens[visit] == nil { order.append(visit) }
        tokens[visit] = csrf
        if order.count > Self.capacity { tokens[order.removeFirst()] = nil }
        return (visit, csrf)
    }

    /// - Returns: Whether such a form was shown to this visitor.
    mutating func close(_ visit: String, csrf: String) -> Bool {
        guard tokens[visit] == csrf else { return false }
        tokens[visit] = nil
        order.removeAll { $0 == visit }
        return true
    }

    private static func random() -> String { String(UInt128.random(in: .min ... .max), radix: 36) }
}
