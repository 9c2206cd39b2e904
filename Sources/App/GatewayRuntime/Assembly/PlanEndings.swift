import GatewayCore
import GatewayProxy

/// What a plan names that ends at a known time: secrets whose end it states, and certificates as they were read.
struct PlanEndings: Sendable {
    private struct Item {
        let kind: Ending.Kind
        let name: String
        var start: UnixTime?
        let end: UnixTime
        let action: String
    }

    private var items: [Item] = []

    /// Blocks: it reads the certificates.
    init(_ plan: Plan) {
        for credential in plan.credentials {
            guard let end = credential.expires else { continue }
            let action = "Get a new secret for \(credential.name), put it in the old one's place and correct expires."
            items.append(Item(kind: .secret, name: credential.name, end: end, action: action))
        }
        for listener in plan.listeners {
            guard let tls = listener.tls else { continue }
            add(tls.certificatePath, "listeners.proxy.\(PlanSummary.Listener(listener).name)")
        }
        for route in plan.routes {
            if let path = route.tls.certificatePath { add(path, "routes.\(route.name)") }
        }
    }

    private mutating func add(_ path: String, _ place: String) {
        guard let validity = CertificateFile.validity(of: path) else { return }
        items.append(
            Item(
                kind: .certificate,
                name: "\(place).tls",
                start: validity.start,
                end: validity.end,
                action: "Replace the certificate \(path), then run: authgateway reload"
            )
        )
    }

    func endings(at now: UnixTime) -> [Ending] {
        items.map { Ending($0.kind, of: $0.name, from: $0.start, to: $0.end, at: now, action: $0.action) }
    }
}
