import Synchronization

/// Numbers every route there has been, so that records of requests carry no name.
final class RouteNumbers: Sendable {
    private struct State {
        var names: [String] = []
        var numbers: [String: Int] = [:]
    }

    private let state = Mutex(State())

    /// A route keeps its number when a reload keeps its name.
    func number(of route: String) -> Int {
        state.withLock { state in
            if let number = state.numbers[route] { return number }
            state.numbers[route] = state.names.count
            state.names.append(route)
            return state.names.count - 1
        }
    }

    func name(of number: Int) -> String? {
        state.withLock { $0.names.indices.contains(number) ? $0.names[number] : nil }
    }
}
