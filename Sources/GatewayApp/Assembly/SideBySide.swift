/// Two things at a time.
///
/// In the place of `async let`, which this program does not use. The memory of such a task is its parent's. Up to Swift 6.3 the runtime
/// still reads it after the result is out, when the parent may have given it to something else: on a busy machine the process then
/// ends with SIGSEGV in `TaskGroup::offer` (swiftlang/swift#89883). Every other task keeps its own memory until it has ended.
package enum SideBySide {
    /// - Returns: Both results, once both have ended. A cancellation reaches both.
    package static func results<First: Sendable, Second>(
        of first: @escaping @Sendable () async -> First,
        and second: () async -> Second
    ) async -> (First, Second) {
        let task = Task(operation: first)
        return await withTaskCancellationHandler {
            let result = await second()
            return (await task.value, result)
        } onCancel: {
            task.cancel()
        }
    }
}
