/// How the file descriptors of the process are shared out among clients, upstreams and what has to work whatever they do.
///
/// A process without a free descriptor does more than refuse connections: it cannot store a lock or run a program for a secret, and
/// libdispatch ends it when it cannot open the state of its threads in `/proc` (`_dispatch_workq_count_runnable_workers`).
package struct DescriptorShares: Hashable, Sendable {
    /// The default of `limits.connections`, where there is room for so many.
    static let standardClients = 8192

    /// How many the process may have; nil where it is not known.
    private let limit: Int?
    /// Files, listeners, and what event loops need.
    private let own: Int
    /// What all upstreams together may have.
    private let upstreamLimit: Int
    /// Kept free for operators, token stores, the audit log, authorization servers, name servers and programs.
    private let reserve: Int
    /// Connections of clients: `limits.connections`.
    package let clients: Int
    /// The configuration says how many.
    private let isChosen: Bool

    /// - Parameters:
    ///   - upstreams: Their number.
    ///   - sharesConnections: No client has a connection to an upstream for itself, as tunnels and `connection_auth` have it.
    ///   - workers: Event loops of the proxy.
    ///   - processors: The admin listener has an event loop for each.
    package init(
        limit: Int?,
        limits: Limits,
        upstreams: Int,
        sharesConnections: Bool,
        workers: Int,
        processors: Int
    ) {
        let upstreamLimit = sharesConnections ? upstreams * limits.connectionsPerUpstream : .max
        // An unlimited number must not overflow; no configuration asks for so many.
        let limit = limit.map { min($0, 1 << 30) }
        self.limit = limit
        self.upstreamLimit = upstreamLimit
        let (own, reserve) = (60 + 3 * (workers + processors), Self.reserve(of: limit))
        (self.own, self.reserve) = (own, reserve)
        isChosen = limits.connections != nil
        let most = limit.map { Self.mostClients(within: $0 - own - reserve, upstreamLimit) } ?? .max
        clients = limits.connections ?? max(1, min(Self.standardClients, most))
    }

    /// Connections that were refused and stay open until their clients have read why.
    package var refused: Int { Self.refused(beside: clients) }

    /// A connection with this descriptor, or a higher one, would take from the reserve: the system gives out the lowest that is free.
    var ceiling: Int { Self.ceiling(of: limit) }
    static func ceiling(of limit: Int?) -> Int { limit.map { $0 - reserve(of: $0) } ?? .max }

    private static let standardReserve = 256
    private static func reserve(of limit: Int?) -> Int { limit.map { min($0 / 4, standardReserve) } ?? standardReserve }

    /// How many connections the admin listener accepts. They leave part of the reserve to stores and programs.
    package static func adminConnections(of limit: Int?) -> Int { max(1, reserve(of: limit) / 2) }

    /// How many connections a listener accepts before those are read. With a small number, the last of many new connections would
    /// wait until the others have been served several times. At most this many take from the reserve, until they are refused. All
    /// listeners together leave three quarters of it to others.
    package static func accepts(of limit: Int?, listeners: Int) -> Int {
        max(1, reserve(of: limit) / 4 / max(1, listeners))
    }

    private static func refused(beside clients: Int) -> Int { min(max(clients / 8, 16), 128) }

    /// All connections for so many clients: one to an upstream for each client, unless the upstreams together may have fewer.
    private static func connections(_ clients: Int, _ upstreamLimit: Int) -> Int {
        clients + refused(beside: clients) + min(clients, upstreamLimit)
    }

    /// The lowest limit that has room for so many clients beside its own reserve.
    private func needed(for clients: Int) -> (all: Int, reserve: Int) {
        let used = Self.connections(clients, upstreamLimit) + own
        let reserve = min((used - 1) / 3, Self.standardReserve)
        return (used + reserve, reserve)
    }

    private static func mostClients(within room: Int, _ upstreamLimit: Int) -> Int {
        var (fitting, tooMany) = (0, max(1, room + 1))
        while fitting + 1 < tooMany {
            let middle = (fitting + tooMany) / 2
            if connections(middle, upstreamLimit) <= room { fitting = middle } else { tooMany = middle }
        }
        return fitting
    }

    /// Why the process cannot have as many clients as the configuration says; nil where it can.
    package var problem: String? {
        let needed = needed(for: clients)
        guard let limit, isChosen, needed.all > limit else { return nil }
        let most = Self.mostClients(within: limit - own - reserve, upstreamLimit)
        let parts = [
            "\(clients) for clients", "\(refused) for clients that are refused",
            "\(min(clients, upstreamLimit)) for upstreams", "\(own) for the gateway itself",
            "\(needed.reserve) in reserve for operators, stores and programs",
        ]
        return
            "limits.connections is \(clients), which needs \(needed.all) file descriptors (\(parts.joined(separator: ", ")));"
            + " the process is limited to \(limit). Raise LimitNOFILE (ulimit -n) to \(needed.all)"
            + (most > 0 ? ", or set limits.connections to at most \(most)." : ".")
    }

    /// Says that there is no room for the clients of the default; nil if there is.
    var shortage: String? {
        guard let limit, !isChosen, clients < Self.standardClients else { return nil }
        return
            "limits.connections is \(clients), because the process is limited to \(limit) file descriptors. The default of"
            + " \(Self.standardClients) needs \(needed(for: Self.standardClients).all): raise LimitNOFILE (ulimit -n)."
    }
}
