import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

extension ClientTLS {
    /// Reads `tls: {certificate, private_key, passphrase, ca}`.
    init?(in fields: ConfigFields) {
        guard let own = fields.fields("tls") else { return nil }
        defer { own.refuseUnknownKeys() }
        own.explain(SharedMeanings.clientTLS)
        if !own.has("certificate") { own.missing("certificate") }
        let (chain, authorities) = (own.certificates("certificate"), own.certificates("ca"))
        let key = own.privateKey("private_key")
        guard let chain, let key, !own.has("ca") || authorities != nil else { return nil }
        self.init(certificates: chain, privateKey: key, authorities: authorities)
        if !own.context.secrets.fits(self) {
            own.error("private_key", "does not belong to the first certificate of \"certificate\"")
        }
    }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("tls.certificate", certificates)
        identity.add("tls.private_key", secret: privateKey.text)
        identity.add("tls.ca", authorities)
    }
}

extension ConfigFields {
    /// The text of a file of certificates in PEM.
    func certificates(_ key: String) -> String? {
        guard let path = filePath(key) else { return nil }
        return usable(key, try context.secrets.certificates(path))
    }
}
