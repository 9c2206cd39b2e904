package import GatewayHTTP
import GatewayProxy
package import GatewayTokens

/// What a plan names that ends at a known time: secrets whose end it states, and certificates as they were read.
package struct PlanExpirations: Sendable {
    private struct Item {
        let kind: Expiration.Kind
        let name: String
        var start: UnixTime?
        let end: UnixTime
        let action: String
    }

    private var items: [Item] = []

    /// Blocks: it reads the certificates.
    package init(_ plan: Plan) {
        for credential in plan.credentials {
            let name = credential.name
            if let end = credential.expires {
                let action = "Get a new secret for \(name), put it in the old one's place and correct expires."
                items.append(Item(kind: .secret, name: name, end: end, action: action))
            }
            if let pem = credential.strategy.clientTLS?.certificates {
                let key = type(of: credential.strategy).clientTLSKey
                add(CertificateValidity.ofText(pem), "credentials.\(name).\(key)", "in \(key) of \(name)")
            }
        }
        for listener in plan.listeners {
            guard let path = listener.tls?.certificatePath else { continue }
            add(CertificateValidity.ofFile(path), "listeners.proxy.\(listener.address.name).tls", path)
        }
        for listener in plan.authz {
            guard let path = listener.tls?.certificatePath, let engine = listener.engine else { continue }
            add(CertificateValidity.ofFile(path), "listeners.authz.\(engine.name).tls", path)
        }
        for route in plan.routes {
            guard let path = route.tls.certificatePath else { continue }
            add(CertificateValidity.ofFile(path), "routes.\(route.name).tls", path)
        }
    }

    private mutating func add(_ validity: (start: UnixTime, end: UnixTime)?, _ place: String, _ certificate: String) {
        guard let validity else { return }
        items.append(
            Item(
                kind: .certificate,
                name: place,
                start: validity.start,
                end: validity.end,
                action: "Replace the certificate \(certificate), then run: authgateway reload"
            )
        )
    }

    package func expirations(at now: UnixTime) -> [Expiration] {
        items.map { Expiration($0.kind, of: $0.name, from: $0.start, to: $0.end, at: now, action: $0.action) }
    }
}
