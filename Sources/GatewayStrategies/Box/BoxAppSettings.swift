import GatewayCore

/// The JSON file that Box's developer console hands out with a new key pair. Every member may be missing.
struct BoxAppSettings {
    private static let console = "the Box developer console"

    let clientID: String?
    let clientSecret: Secret?
    let keyID: String?
    let privateKey: Secret?
    let passphrase: Secret?
    let enterpriseID: String?
    let userID: String?

    /// Reads `app_settings`: a path, or a secret that holds the file's text. nil after a mistake.
    init?(in fields: ConfigFields) {
        guard let text = fields.fileOrSecret("app_settings") else { return nil }
        guard let file = text.withValue({ JSONValue(Array($0.utf8)) }), case .object? = file["boxAppSettings"] else {
            fields.error("app_settings", "is not the JSON file that \(Self.console) hands out with a key pair")
            return nil
        }
        let app = file["boxAppSettings"]
        clientID = Self.text(app?["clientID"])
        clientSecret = Self.text(app?["clientSecret"]).map { Secret($0) }
        keyID = Self.text(app?["appAuth"]?["publicKeyID"])
        privateKey = Self.text(app?["appAuth"]?["privateKey"]).map { Secret($0) }
        passphrase = Self.text(app?["appAuth"]?["passphrase"]).map { Secret($0) }
        enterpriseID = Self.text(file["enterpriseID"])
        userID = Self.text(file["userID"])
        if privateKey == nil, !fields.has("private_key") {
            let advice = "generate a key pair in \(Self.console), or set private_key and key_id here"
            fields.error("app_settings", "there is no appAuth.privateKey in it; \(advice)")
            return nil
        }
    }

    /// Box leaves what it does not know empty.
    private static func text(_ value: JSONValue?) -> String? {
        switch value {
        case .string(let text) where !text.isEmpty: text
        case .number(let number): number.whole.map(String.init)
        default: nil
        }
    }

    /// Whom the file speaks for, when it names one only.
    func subject(in fields: ConfigFields) -> BoxSubject? {
        switch (enterpriseID, userID) {
        case (let id?, nil): return .enterprise(id)
        case (nil, let id?): return .user(id)
        case (nil, nil):
            fields.error("missing key \"subject\": the file names neither enterpriseID nor userID")
        default:
            fields.error("missing key \"subject\": the file names both enterpriseID and userID, so say which one")
        }
        return nil
    }
}
