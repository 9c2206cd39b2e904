/// Reads `expires`: the end of the secret, key or password of a credential. Only the configuration knows it.
enum SecretExpirationDecoder {
    /// - Parameter strategy: nil when its own keys were faulty.
    static func decode(_ fields: ConfigFields, for strategy: (any AuthStrategy)?) -> UnixTime? {
        if let strategy, !strategy.hasSecret { return nil }
        fields.explain(meanings)
        return fields.time("expires")
    }
}

extension ConfigFields {
    /// A time with its zone, or a date, which begins at midnight UTC.
    package func time(_ key: String) -> UnixTime? {
        guard let text = string(key) else { return nil }
        guard let time = UnixTime(rfc3339: text) ?? UnixTime(rfc3339: text + "T00:00:00Z") else {
            error(key, "expected a date such as 2027-01-31, or a time such as 2027-01-31T12:00:00Z")
            return nil
        }
        return time
    }
}

extension AuthStrategy {
    /// Whether there is anything that could end.
    var hasSecret: Bool {
        if case .none = behavior { return false }
        return true
    }
}
