import GatewayConfiguration
import GatewayHTTP

/// Reads `tls` of a route: how its upstream is known, and how we are known to it.
enum RouteTLS {
    private static let keys = Keys {
        $0("ca", default: "those of the system", example: "corp-ca.pem")
            .means("The file with the certificate authorities that the upstream's certificate must come from.")
        $0("server_name", default: "the host of upstream", example: "api.internal")
            .means("The name that the certificate must have.")
        $0("certificate", example: "client.pem")
            .means("The client certificate for the upstream, in PEM.")
        $0("private_key", example: "{file: client-key.pem}")
            .means("The key of that certificate, in PEM.")
        $0("pin", example: "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=")
            .means("The SHA-256 of the public key in the upstream's certificate.")
    }

    static func decode(_ route: ConfigFields, of upstream: UpstreamURL?) -> RoutePlan.TLS {
        guard let fields = route.fields("tls") else { return RoutePlan.TLS() }
        fields.explain(keys)
        if let upstream, upstream.origin.scheme == .http {
            route.error("tls", "has no effect: the upstream is http")
        }
        fields.refuseNothing(behind: "ca", hint: "to trust the system's certificate authorities")
        fields.refuseNothing(behind: "pin", hint: "to accept any key that is trusted")
        var tls = RoutePlan.TLS(caPath: fields.filePath("ca"), certificatePath: fields.filePath("certificate"))
        if let name = fields.string("server_name") {
            let origin = Origin(scheme: .https, authority: name)
            if let origin, !name.contains(":"), !origin.isIPv4 {
                tls.serverName = origin.host
            } else {
                fields.error("server_name", "expected the name of a host: no address, no port")
            }
        }
        if fields.has("private_key") { tls.privateKey = fields.requiredSecretText("private_key") }
        if fields.has("certificate") != fields.has("private_key") {
            fields.error("certificate and private_key belong together")
        }
        tls.pins = pins(fields)
        fields.refuseUnknownKeys()
        return tls
    }

    /// One pin, or a list of them: the next key is named before the server changes to it.
    private static func pins(_ fields: ConfigFields) -> [CertificatePin] {
        guard let node = fields.node("pin"), !node.isNull else { return [] }
        guard case .sequence = node.content else {
            guard let text = fields.string("pin") else { return [] }
            return [pin(text, at: node.span, fields.path.appending("pin"), fields.context)].compactMap(\.self)
        }
        let elements = fields.elements("pin") ?? []
        if elements.isEmpty { fields.error("pin", "names no key; remove it to accept any that is trusted") }
        return elements.compactMap { node, path in
            guard case .scalar(let scalar) = node.content else { return pin("", at: node.span, path, fields.context) }
            return pin(scalar.text, at: node.span, path, fields.context)
        }
    }

    private static func pin(
        _ text: String,
        at span: SourceSpan,
        _ path: ConfigPath,
        _ context: ConfigContext
    ) -> CertificatePin? {
        if let pin = CertificatePin(text) { return pin }
        context.error(
            "expected sha256/ and 44 characters of base64: the SHA-256 of the public key of the server's certificate",
            at: span,
            path: path
        )
        return nil
    }
}
