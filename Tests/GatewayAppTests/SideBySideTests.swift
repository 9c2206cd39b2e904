import GatewayApp
import GatewayHTTP
import Testing

@Suite(.timeLimit(.minutes(5)))
struct SideBySideTests {
    @Test func bothAreUnderWayAtATime() async {
        let (firstBegan, secondBegan) = (Promise<Void>(), Promise<Void>())
        let (first, second) = await SideBySide.results {
            firstBegan.keep(())
            await secondBegan.value()
            return 1
        } and: {
            secondBegan.keep(())
            await firstBegan.value()
            return "two"
        }
        #expect(first == 1)
        #expect(second == "two")
    }

    @Test func aCancellationReachesBoth() async {
        let bothBegan = Promise<Void>()
        let task = Task {
            await SideBySide.results {
                await Self.untilCancelled()
            } and: {
                bothBegan.keep(())
                return await Self.untilCancelled()
            }
        }
        await bothBegan.value()
        task.cancel()
        let (first, second) = await task.value
        #expect(first)
        #expect(second)
    }

    private static func untilCancelled() async -> Bool {
        try? await Task.sleep(for: .seconds(86_400))
        return Task.isCancelled
    }
}
