package import GatewayHTTP

/// When engines were first handed a token generation for a path template, without a report of its rejection since.
///
/// Of fixed size, as ``TemplateTable`` says: what is lost to another template is an acceptance that is not seen.
package final class HandedOutTemplates: Sendable {
    package static let capacity = TemplateTable.capacity
    /// The time has the low bits of an entry, in seconds; it wraps after half a year.
    private static let timeMask: UInt64 = 0xFF_FFFF

    private let table = TemplateTable()

    package init() {}

    package func note(_ template: PathTemplate, generation: Int, at now: MonotonicTime) {
        let tag = Self.tag(template, generation)
        guard table[template] & ~Self.timeMask != tag else { return }
        table.store(tag | Self.seconds(now), for: template)
    }

    /// - Returns: How long ago it was handed out first; nil when it was not, or when a rejection has been reported since.
    package func take(_ template: PathTemplate, generation: Int, at now: MonotonicTime) -> Duration? {
        let entry = table[template]
        guard entry & ~Self.timeMask == Self.tag(template, generation) else { return nil }
        table.store(0, for: template)
        return .seconds((Self.seconds(now) &- entry) & Self.timeMask)
    }

    private static func tag(_ template: PathTemplate, _ generation: Int) -> UInt64 {
        (TemplateTable.hash(template, generation) | 1 &<< 24) & ~timeMask
    }

    private static func seconds(_ time: MonotonicTime) -> UInt64 {
        UInt64(max((time - MonotonicTime(nanoseconds: 0)).components.seconds, 0)) & timeMask
    }
}
