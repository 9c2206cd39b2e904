import GatewayHTTP
package import GatewayTokens

/// What the gateway would do with a request, and why. Holds no secret.
package struct Explanation: Hashable, Sendable, Codable {
    package enum Outcome: String, Hashable, Sendable, Codable {
        case forwarded
        /// It is forwarded once there is a credential.
        case waits
        /// Bytes pass to a server that no route leads to, if its addresses may be dialled.
        case tunnelled
        case refused
        /// The gateway itself answers it.
        case answered
    }

    /// Where the answer comes from.
    package enum Source: String, Hashable, Sendable, Codable {
        /// The running gateway.
        case gateway
        /// No gateway runs: the configuration file, with the token store.
        case store
        /// No gateway runs: the configuration file alone.
        case configuration
    }

    /// Where the request comes in.
    package struct Listener: Hashable, Sendable, Codable {
        /// Its address as a URL, or `unix:PATH`.
        package var name: String
        /// The address that it is bound to; nil for a unix socket.
        package var address: String?
        package var port: Int?
        package var socket: String?
        var isTls: Bool
    }

    package struct Request: Hashable, Sendable, Codable {
        package var method: String
        /// With the values of its query masked.
        package var target: String
        package var host: String
        package var listener: Listener
        package var way: ListenerMatch.Form
        /// The field of the answer that names the request; nil for none.
        package var idField: String?
        /// What somebody should know of how the input was read.
        package var remarks: [String]
    }

    package struct Route: Hashable, Sendable, Codable {
        package var name: String
        /// Why this one.
        package var reason: String
        package var upstream: String
        package var rules: [String]
    }

    struct OtherRoute: Hashable, Sendable, Codable {
        var name: String
        var reason: String
    }

    package struct Client: Hashable, Sendable, Codable {
        /// nil where no client is known.
        package var name: String?
        var presentsToken: Bool
        /// Somebody asked how it would be for this client.
        var isAssumed: Bool
    }

    package struct CredentialState: Hashable, Sendable, Codable {
        package var name: String
        package var strategy: String
        /// It has a token that comes and goes; otherwise it is what the configuration says.
        package var hasToken: Bool
        /// nil where there is no token, or its state is not known.
        package var status: TokenStatus?
        var ageSeconds: Int?
        package var fields: [Field]
        /// The query parameter that it goes into.
        package var parameter: String?
    }

    package struct Field: Hashable, Sendable, Codable {
        package var name: String
        /// Masked where it may be a secret.
        package var value: String
    }

    struct RemovedField: Hashable, Sendable, Codable {
        var name: String
        var reason: String
    }

    /// The request as the upstream would get it.
    struct Departure: Hashable, Sendable, Codable {
        var line: String
        var fields: [Field]
        var added: [Field]
        var removed: [RemovedField]
    }

    /// What the client would be answered.
    package struct Refusal: Hashable, Sendable, Codable {
        package var status: Int
        package var code: String
        package var detail: String
        /// What a client is told that may not learn names; nil where it is told the same.
        var detailForClient: String?
        package var command: String?
    }

    /// One check, in the order in which the gateway makes them.
    struct Step: Hashable, Sendable, Codable {
        var name: String
        var text: String
        var passes: Bool
    }

    /// One line.
    package var verdict: String
    package var outcome: Outcome
    package var source: Source
    package var request: Request
    package var route: Route?
    /// The routes that come closest, the closest first; at most ``maximumOthers``.
    var otherRoutes: [OtherRoute]
    var otherRouteCount: Int
    package var client: Client?
    package var credential: CredentialState?
    package var refusal: Refusal?
    var departure: Departure?
    var steps: [Step]

    static let maximumOthers = 20
}

// MARK: - Text

/// The explanation as text.
extension Explanation {
    /// The explanation as people read it, with line breaks.
    ///
    /// - Parameter width: The width of the terminal; nil for lines of any length.
    package func text(width: Int? = nil) -> String {
        var page = LabelledLines(width: width)
        page.addLine(verdict)
        page.addLine("")
        if source != .gateway { page.add("source", Self.words(for: source)) }
        page.add("request", arrivalText)
        for remark in request.remarks { page.add("note", remark) }
        for (index, step) in steps.enumerated() {
            // What follows within one check says more of it.
            let goesOn = index > 0 && steps[index - 1].name == step.name && !steps[index - 1].passes
            page.add(step.name, step.passes || goesOn ? step.text : "refused: \(step.text)")
            if step.name == "route" { addOthers(to: &page) }
        }
        if let refusal { add(refusal, to: &page) }
        if let departure { add(departure, to: &page) }
        return page.text
    }

    private static func words(for source: Source) -> String {
        switch source {
        case .gateway: "the running gateway"
        case .store: "no gateway runs; this is the configuration file, with the tokens of the store"
        case .configuration: "no gateway runs; this is the configuration file alone"
        }
    }

    private var arrivalText: String {
        let line = "\(request.method) \(request.target)"
        return switch request.way {
        case .direct: "\(line), Host \(request.host), to \(request.listener.name)"
        case .proxy: "\(line), to \(request.listener.name) as a proxy"
        case .connect: "CONNECT \(request.target), to \(request.listener.name) as a proxy"
        }
    }

    /// Far ones are counted where there are many.
    private func addOthers(to page: inout LabelledLines) {
        let shown = otherRoutes.prefix(8)
        for other in shown { page.add("", "not \(other.name): \(other.reason)") }
        if otherRouteCount > shown.count { page.add("", "and not \(otherRouteCount - shown.count) more") }
    }

    private func add(_ refusal: Refusal, to page: inout LabelledLines) {
        page.add("answer", "\(refusal.status) \(refusal.code): \(refusal.detail)")
        if let detail = refusal.detailForClient { page.add("", "the client is told only: \(detail)") }
        page.addCommand(refusal.command, under: "Run:")
        page.addCommand(ErrorEntry.command(explaining: refusal.code), under: LabelledLines.codeTitle)
    }

    private func add(_ departure: Departure, to page: inout LabelledLines) {
        for field in departure.added { page.add("added", "\(field.name): \(field.value)") }
        for field in departure.removed { page.add("removed", "\(field.name): \(field.reason)") }
        page.addLine("")
        page.addLine("The upstream gets:")
        page.addLine("  \(departure.line)")
        for field in departure.fields { page.addLine("  \(field.name): \(field.value)") }
    }
}
