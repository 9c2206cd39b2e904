/// What becomes of the value of one field on its way to the client.
package enum FieldRewrite: Hashable, Sendable {
    case unchanged
    case replaced([UInt8])
    /// The whole field is left out.
    case dropped
}
