import GatewayCore
import GatewayLocalAuthority

extension LocalAuthority {
    /// How long a disk is waited for.
    private static let coverLimit: Duration = .seconds(3)

    /// Does what ``cover(_:)`` does without holding up the caller for a disk that does not answer.
    func coverInTime(_ plan: Plan) async -> Result<[String], LeafError> {
        await inTime { () throws(LeafError) in try self.cover(plan.interceptedHosts, as: plan.localAuthority) }
    }

    /// The same with ``rotate(_:as:)``.
    func rotateInTime(_ plan: Plan) async -> Result<[String], LeafError> {
        await inTime { () throws(LeafError) in try self.rotate(plan.interceptedHosts, as: plan.localAuthority) }
    }

    private func inTime(
        _ work: @escaping @Sendable () throws(LeafError) -> [String]
    ) async -> Result<[String], LeafError> {
        let result = await OwnThread.run(within: Self.coverLimit) { _ in Result { () throws(LeafError) in try work() } }
        switch result {
        case .success(let covered): return covered
        case .failure(let failure):
            return .failure(LeafError("the local authority is not written in time (\(failure))"))
        }
    }
}
