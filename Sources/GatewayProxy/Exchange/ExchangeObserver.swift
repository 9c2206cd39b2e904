/// Told of every request that is over, on the event loop it ran on. Must return at once.
package protocol ExchangeObserver: Sendable {
    func finished(_ record: borrowing ExchangeRecord)
}
