import Synchronization

/// Numbers every route there has been, so that records of requests carry no name.
final class RouteNumbers: Sendable {
    private let names = Mutex<[String]>([])

    /// A route keeps its number when a reload keeps its name.
    func number(of route: String) -> Int {
        names.withLock { names in
            if let number = names.firstIndex(of: route) { return number }
            names.append(route)
            return names.count - 1
        }
    }

    func name(of number: Int) -> String? {
        names.withLock { $0.indices.contains(number) ? $0[number] : nil }
    }
}
