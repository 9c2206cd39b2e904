package import GatewayHTTP

/// What a gateway records of credentials that are unlocked because the shared store no longer has their locks.
///
/// An operator of another gateway may have unlocked them, and then that gateway has recorded it. Or somebody has changed the store.
package enum SharedUnlocks {
    /// Of one look at the store. One more event counts the rest, so that a changed store cannot fill the audit log.
    package static let maximumEvents = 100

    /// - Parameters:
    ///   - names: As operators use them: `box`, or `app-user[42]`.
    ///   - strategies: Those of the credentials in the configuration. Their events come first.
    package static func events(of names: Set<String>, strategies: [String: String], at now: UnixTime) -> [TokenEvent] {
        let strategy: (String) -> String? = { name in strategies[String(name.prefix { $0 != "[" })] }
        let known = names.filter { strategies[$0] != nil }
        let sorted = known.sorted() + names.subtracting(known).sorted()
        var events = sorted.prefix(maximumEvents).map { event($0, strategy($0), now) }
        if sorted.count > events.count {
            var rest = event(nil, nil, now)
            rest.detail["credentials"] = String(sorted.count - events.count)
            events.append(rest)
        }
        return events
    }

    private static func event(_ credential: String?, _ strategy: String?, _ now: UnixTime) -> TokenEvent {
        var event = TokenEvent(at: now, name: .unlocked, credential: credential, strategy: strategy)
        event.detail = ["from": "store"]
        return event
    }
}
