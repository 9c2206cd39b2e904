import GatewayFiles
import Logging

extension Storage {
    /// For a command. Holds the lock of the state directory until it is closed, so that no gateway starts meanwhile.
    static func ofStoppedGateway(_ places: Places) async throws(CommandFailure) -> Storage {
        let logger = LogOutput.standardError.logger("authgateway.audit", level: .error)
        do throws(StateError) {
            return try await Storage(places, clock: SystemClock(), logger: logger)
        } catch {
            throw CommandFailure(error)
        }
    }
}
