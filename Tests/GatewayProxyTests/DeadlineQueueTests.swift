import NIOCore
import NIOPosix
import Testing

@testable import GatewayProxy

@Suite(.timeLimit(.minutes(5)))
struct DeadlineQueueTests {
    private final class Keeper: DeadlineKeeper {
        let timer: DeadlineTimer
        let record: (NIODeadline) -> Void
        var onPassing: (() -> Void)?

        init(_ queue: DeadlineQueue, _ record: @escaping (NIODeadline) -> Void) {
            timer = DeadlineTimer(queue: queue)
            self.record = record
        }

        func deadlinePassed() {
            record(timer.passed)
            onPassing?()
        }
    }

    private final class Scene {
        let queue: DeadlineQueue
        let start = NIODeadline.now()
        var keepers: [Keeper] = []
        var passed: [(deadline: NIODeadline, at: NIODeadline)] = []

        init(_ loop: any EventLoop) { queue = DeadlineQueue(loop: loop) }

        func keeper(due milliseconds: Int) -> Keeper {
            let keeper = Keeper(queue) { [unowned self] in passed.append(($0, .now())) }
            keepers.append(keeper)
            set(keeper, milliseconds)
            return keeper
        }

        func set(_ keeper: Keeper, _ milliseconds: Int) {
            keeper.timer.set(start + .milliseconds(Int64(milliseconds)), for: keeper)
        }

        var order: [Int] { passed.map { Int(($0.deadline - start).nanoseconds / 1_000_000) } }
    }

    /// Runs `act` on an event loop, waits, and hands what has become of it to `judge`.
    private func after(
        _ milliseconds: Int,
        of act: @escaping @Sendable (Scene) -> Void,
        _ judge: @escaping @Sendable (Scene) -> Void
    ) async throws {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let scene = try await loop.submit {
            let scene = Scene(loop)
            act(scene)
            return NIOLoopBound(scene, eventLoop: loop)
        }.get()
        try await Task.sleep(for: .milliseconds(milliseconds))
        try await loop.submit { judge(scene.value) }.get()
    }

    @Test func deadlinesPassOnceEachAndInOrder() async throws {
        try await after(400) { scene in
            for index in 0..<300 { _ = scene.keeper(due: index * 7919 % 101) }
            for (index, keeper) in scene.keepers.enumerated() {
                if index % 3 == 0 { keeper.timer.cancel() }
                if index % 5 == 0 { scene.set(keeper, 150 + index % 11) }
                if index % 7 == 0 { scene.set(keeper, index % 13) }
                if index % 11 == 0 { keeper.timer.clear() }
            }
        } _: { scene in
            var expected: [Int] = []
            for index in 0..<300 where index % 11 != 0 {
                if index % 7 == 0 {
                    expected.append(index % 13)
                } else if index % 5 == 0 {
                    expected.append(150 + index % 11)
                } else if index % 3 != 0 {
                    expected.append(index * 7919 % 101)
                }
            }
            #expect(scene.order.sorted() == expected.sorted())
            // One that was put off is looked at when it was to pass at first; those that are due by then pass together.
            for (deadline, time) in scene.passed { #expect(deadline <= time) }
            #expect(scene.queue.count == 0)
        }
    }

    @Test func theEarliestComesFirst() async throws {
        try await after(200) { scene in
            for due in [60, 20, 80, 40] { _ = scene.keeper(due: due) }
        } _: {
            #expect($0.order == [20, 40, 60, 80])
        }
    }

    @Test func aCallMayCancelOthersAndSetItselfAgain() async throws {
        try await after(200) { scene in
            let first = scene.keeper(due: 10)
            let second = scene.keeper(due: 10)
            let third = scene.keeper(due: 30)
            first.onPassing = { [unowned scene, unowned first] in
                second.timer.cancel()
                third.timer.cancel()
                first.onPassing = nil
                scene.set(first, 50)
            }
        } _: { scene in
            #expect(scene.order == [10, 50])
            #expect(scene.queue.count == 0)
        }
    }

    /// It waits for the next keeper, whether its deadline is before or behind the one of the keeper that was let go.
    @Test(arguments: [10, 60])
    func aTimerThatWasReleasedWaitsForTheNextKeeper(_ due: Int) async throws {
        try await after(200) { scene in
            let timer = DeadlineTimer(queue: scene.queue)
            weak var released: Keeper?
            do {
                let keeper = Keeper(scene.queue) { _ in Issue.record("it was released") }
                timer.set(scene.start + .milliseconds(30), for: keeper)
                timer.release()
                released = keeper
            }
            #expect(released == nil)
            #expect(scene.queue.count == 1)
            let next = Keeper(scene.queue) { [unowned scene] _ in scene.passed.append((timer.passed, .now())) }
            timer.set(scene.start + .milliseconds(Int64(due)), for: next)
        } _: { scene in
            #expect(scene.order == [due])
            #expect(scene.queue.count == 0)
        }
    }

    @Test func aTimerThatWasReleasedLeavesTheQueueWhenItLooks() async throws {
        try await after(100) { scene in
            let keeper = scene.keeper(due: 20)
            keeper.timer.release()
        } _: { scene in
            #expect(scene.order.isEmpty && scene.queue.count == 0)
        }
    }

    @Test func whoIsNotWaitedForAnyLongerIsLetGo() async throws {
        try await after(50) { scene in
            weak var cancelled: Keeper?
            do {
                let keeper = Keeper(scene.queue) { _ in }
                keeper.timer.set(.now() + .hours(1), for: keeper)
                keeper.timer.cancel()
                cancelled = keeper
            }
            #expect(cancelled == nil)
        } _: {
            #expect($0.queue.count == 0)
        }
    }
}
