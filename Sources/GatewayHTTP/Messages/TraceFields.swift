/// What becomes of a request's `traceparent` and `tracestate`.
package enum TraceFields: Hashable, Sendable {
    /// They are forwarded as they came, like any other field.
    case pass
    /// The gateway writes `traceparent`; `tracestate` belongs to the same trace and is forwarded.
    case replaceParent
    /// The gateway begins another trace, to which `tracestate` does not belong.
    case replaceAll

    package static let parentName = Array("traceparent".utf8)
    private static let stateName = Array("tracestate".utf8)

    static func isParent(_ field: HeadField, _ bytes: borrowing Span<UInt8>) -> Bool {
        field.kind == .other && bytes.equalsLowercased(field.name, parentName)
    }

    func drops(_ field: HeadField, _ bytes: borrowing Span<UInt8>) -> Bool {
        switch self {
        case .pass: false
        case .replaceParent: Self.isParent(field, bytes)
        case .replaceAll:
            Self.isParent(field, bytes)
                || field.kind == .other && bytes.equalsLowercased(field.name, Self.stateName)
        }
    }
}
