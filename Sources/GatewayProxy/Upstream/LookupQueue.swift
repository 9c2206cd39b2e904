/// Which waiter waits for which answer of a name server, and how many questions may be asked at a time.
///
/// Waiters with the same question share its answer. A question behind too many others is refused: nothing else bounds what waits for a
/// silent name server.
struct LookupQueue<Question: Hashable & Sendable, Waiter> {
    enum Step: Hashable, Sendable {
        /// A thread has to ask.
        case ask
        /// The answer will come.
        case wait
        case refuse
    }

    private let maximumAtOnce: Int
    private let maximumWaiting: Int
    private var waiters: [Question: [Waiter]] = [:]
    private var waiting: [Question] = []
    private var running = 0

    init(maximumAtOnce: Int, maximumWaiting: Int) {
        self.maximumAtOnce = maximumAtOnce
        self.maximumWaiting = maximumWaiting
    }

    mutating func ask(_ question: Question, for waiter: Waiter) -> Step {
        defer { checkInvariants() }
        if waiters[question] != nil {
            waiters[question]?.append(waiter)
            return .wait
        }
        guard running < maximumAtOnce || waiting.count < maximumWaiting else { return .refuse }
        waiters[question] = [waiter]
        guard running < maximumAtOnce else {
            waiting.append(question)
            return .wait
        }
        running += 1
        return .ask
    }

    /// - Parameter goesOn: The thread that has asked this question can ask the next one.
    /// - Returns: Those who wait for the answer, and the next question.
    mutating func finish(_ question: Question, goesOn: Bool) -> (waiters: [Waiter], next: Question?) {
        assert(waiters[question] != nil, "An answer arrived for an unknown lookup.")
        defer { checkInvariants() }
        let next = goesOn && !waiting.isEmpty ? waiting.removeFirst() : nil
        if next == nil { running -= 1 }
        return (waiters.removeValue(forKey: question) ?? [], next)
    }

    private func checkInvariants() {
        assert((0...maximumAtOnce).contains(running), "More questions are asked at once than there may be.")
        assert(waiting.count <= maximumWaiting, "More questions wait than there may be.")
        assert(waiters.count == running + waiting.count, "The lookups and their waiters do not add up.")
        assert(waiting.first.map { waiters[$0] != nil } ?? true, "A queued lookup has no waiter.")
    }
}
