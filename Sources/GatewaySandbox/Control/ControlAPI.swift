import GatewayHTTP
import HTTPTypes
import Hummingbird

/// How tests and people steer a sandbox: the same paths on every server, about the server that is asked.
struct ControlAPI: Sendable {
    private static let bodyLimit = 256 * 1024

    let world: World
    let origin: OriginName

    func routes(on router: Router<SandboxContext>) {
        router.get("/_sandbox/state") { _, _ in .json(state()) as Response }
        router.get("/_sandbox/requests") { request, _ in requests(request) }
        router.get("/_/requests") { request, _ in requests(request) }
        router.get("/_sandbox/environment") { _, _ in .json(environment()) as Response }
        router.post("/_sandbox/reset") { _, _ in
            world.reset()
            return .json(state()) as Response
        }
        router.post("/_sandbox/switches") { request, _ in try await change(request) }
    }

    private func state() -> JSON {
        world.withState { state, _ in
            let switches = OriginName.allCases.map { ($0.rawValue, (state.switches[$0] ?? Switches()).json) }
            let addresses = state.addresses ?? Sandbox.Addresses()
            let origins: JSON = [
                "box": .string(addresses.box), "box_downloads": .string(addresses.boxDownloads),
                "duke": .string(addresses.duke), "oauth": .string(addresses.oauth),
                "upstream": .string(addresses.upstream),
            ]
            return .object(
                [("origin", .string(origin.rawValue)), ("origins", origins)] + state.counters.json
                    + [("switches", .object(switches))]
            )
        }
    }

    private func environment() -> JSON {
        let (seeds, addresses) = world.withState { state, _ in (state.seeds, state.addresses ?? Sandbox.Addresses()) }
        let variables = world.accounts.environment(seeds: seeds, addresses: addresses)
        return .object(variables.sorted { $0.key < $1.key }.map { ($0.key, .string($0.value)) })
    }

    /// `?origin=box` narrows, `?origin=all` widens, `?last=10` shortens.
    private func requests(_ request: Request) -> Response {
        let wanted = request.uri.queryParameters["origin"].map { OriginName(rawValue: String($0)) } ?? origin
        let last = request.uri.queryParameters["last"].flatMap { Int($0) } ?? Journal.capacity
        let entries = world.withState { state, _ in state.journal.last(last, of: wanted) }
        return .json(["requests": .array(entries.map(\.json))])
    }

    private func change(_ request: Request) async throws -> Response {
        let body = try await request.body.collect(upTo: Self.bodyLimit)
        guard case .object(let members)? = JSONValue(Array(body.readableBytesView)) else {
            return .json(["error": "expected a JSON object of switches"], status: .badRequest)
        }
        do {
            try apply(members)
            return .json(state())
        } catch let error as UnusableInput {
            return .json(["error": .string(error.message)], status: .badRequest)
        }
    }

    /// All of it or nothing.
    private func apply(_ members: [String: JSONValue]) throws {
        var members = members
        let target = try chosenOrigin(members.removeValue(forKey: "origin"))
        let revocation = try members.removeValue(forKey: "revoke_all").map { value in
            try Setting(name: "revoke_all", value: value).bool(default: false)
        }
        let access = try members.removeValue(forKey: "revoke_access").map { value in
            try Setting(name: "revoke_access", value: value).bool(default: false)
        }
        let age = try members.removeValue(forKey: "age_tokens_s").map { value in
            try Setting(name: "age_tokens_s", value: value).integer(0...100_000_000)
        }
        try world.withState { state, _ in
            var switches = state.switches[target] ?? Switches()
            try switches.set(members)
            state.switches[target] = switches
            // The upstream and the download server issue nothing: there, all authorities are meant.
            let authority = [.box, .duke, .oauth].contains(target) ? target : nil
            if revocation == true { state.registry.revokeAll(of: authority, kind: nil) }
            if access == true { state.registry.revokeAll(of: authority, kind: .access) }
            if let age { state.registry.age(by: age) }
        }
    }

    private func chosenOrigin(_ value: JSONValue?) throws -> OriginName {
        guard let value else { return origin }
        guard let chosen = value.string.flatMap(OriginName.init(rawValue:)) else {
            throw UnusableInput(
                "origin: expected one of \(OriginName.allCases.map(\.rawValue).joined(separator: ", "))"
            )
        }
        return chosen
    }
}
