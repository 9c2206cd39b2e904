/// The names of locked credentials at one gateway of a fleet, and what it has yet to tell the store that they share.
///
/// The store is asked, and meanwhile an operator may lock or unlock here. What the operator did after the question counts, whatever
/// the answer says.
package struct LockedNames: Sendable {
    /// One change of an operator of this gateway.
    private struct Change {
        let isLocked: Bool
        let number: Int
        /// The store has it.
        var isTold = false
    }

    /// What the store is told, and asked for all names with.
    package struct Question: Sendable {
        package let added: Set<String>
        package let removed: Set<String>
        fileprivate let number: Int
    }

    package private(set) var names: Set<String>
    /// Changes that an answer of the store may not include yet.
    private var changes: [String: Change] = [:]
    /// Counts changes and questions, in their order.
    private var last = 0
    /// The question of the answer that was followed last.
    private var followed = 0

    package init(_ names: Set<String> = []) { self.names = names }

    package mutating func lock(_ name: String) {
        names.insert(name)
        note(name, isLocked: true)
    }

    package mutating func unlock(_ all: Set<String>) {
        names.subtract(all)
        for name in all { note(name, isLocked: false) }
    }

    /// The locks that the store has yet to be told of.
    package var untold: Set<String> { Set(changes.filter { $0.value.isLocked && !$0.value.isTold }.keys) }

    private mutating func note(_ name: String, isLocked: Bool) {
        last += 1
        changes[name] = Change(isLocked: isLocked, number: last)
    }

    package mutating func ask() -> Question {
        last += 1
        let untold = changes.filter { !$0.value.isTold }
        return Question(
            added: Set(untold.filter { $0.value.isLocked }.keys),
            removed: Set(untold.filter { !$0.value.isLocked }.keys),
            number: last
        )
    }

    /// The store has what the question told it.
    ///
    /// - Parameter held: Names that it did not take: see ``SharedLockNames/held``.
    package mutating func told(_ question: Question, except held: Set<String> = []) {
        for (name, change) in changes where change.number < question.number && !held.contains(name) {
            changes[name]?.isTold = true
        }
    }

    /// Takes over the answer to a question.
    ///
    /// - Parameter held: Names that the store did not take: see ``SharedLockNames/held``. What was done here counts for them.
    /// - Returns: The names that are locked here, or unlocked, since. None when a later question was answered before.
    package mutating func follow(
        _ all: Set<String>,
        to question: Question,
        except held: Set<String> = []
    ) -> Set<String> {
        told(question, except: held)
        guard question.number > followed else { return [] }
        followed = question.number
        // What came before the question is in the answer.
        changes = changes.filter { $0.value.number > question.number || held.contains($0.key) }
        let before = names
        names = all
        for (name, change) in changes {
            if change.isLocked { names.insert(name) } else { names.remove(name) }
        }
        return before.symmetricDifference(names)
    }
}
