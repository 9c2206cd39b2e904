/// How much one client may ask of the gateway.
package struct ClientLimitsPlan: Hashable, Sendable {
    /// Requests at the same time; nil allows any number.
    package var concurrent: Int?
    /// Requests in a second; nil allows any number.
    package var perSecond: Int?

    package init(concurrent: Int? = nil, perSecond: Int? = nil) {
        self.concurrent = concurrent
        self.perSecond = perSecond
    }

    package var isEmpty: Bool { concurrent == nil && perSecond == nil }
}
