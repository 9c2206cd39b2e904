/// A `downscope`, read before it is known which credential it narrows.
enum CredentialNarrowing {
    case none
    case faulty
    case terms(any DerivedStrategy, ConfigFields)

    /// - Parameter fields: Where a `downscope` may stand: the `auth` of a route, or `vend`.
    init(in fields: ConfigFields, catalog: StrategyCatalog) {
        guard fields.has("downscope") else {
            self = .none
            return
        }
        guard let own = fields.fields("downscope") else {
            self = .faulty
            return
        }
        defer { own.refuseUnknownKeys() }
        self = catalog.downscoping?.init(downscope: own).map { .terms($0, own) } ?? .faulty
    }
}
