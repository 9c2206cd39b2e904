/// How a route does, in one of four words.
package enum RouteCondition: String, Sendable {
    case idle
    case good
    /// Some requests fail.
    case degraded
    case failing
}

extension RouteStatus {
    /// From what its credential needs, from its upstream's health, and from what it answered in the last 5 minutes.
    package func condition(_ traffic: TrafficStatus?) -> RouteCondition {
        if needs != nil { return .failing }
        let rates = [health?.failureRate, traffic?.errorShare].compactMap(\.self)
        let rejections = [health?.rejectionRate, traffic?.rejectionShare].compactMap(\.self)
        guard let rate = rates.max() else {
            let isUsed = traffic.map { $0.requests.contains { $0 > 0 } } ?? false
            return isUsed || health?.lastSuccessAt != nil ? .good : .idle
        }
        if rate >= 0.5 { return .failing }
        // Below that, clients may only be asking for what the credential may not read.
        if let most = rejections.max(), most >= 0.5 { return .degraded }
        return rate >= 0.01 ? .degraded : .good
    }
}
