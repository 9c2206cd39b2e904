import GatewayCore
import GatewayLocalAuthority

extension LocalAuthority {
    /// How long a disk is waited for.
    private static let coverLimit: Duration = .seconds(3)

    /// Does what ``cover(_:)`` does without holding up the caller for a disk that does not answer.
    func coverInTime(_ hosts: [String]) async -> Result<[String], LeafError> {
        let result = await OwnThread.run(within: Self.coverLimit) { _ in
            Result { () throws(LeafError) in try self.cover(hosts) }
        }
        switch result {
        case .success(let covered): return covered
        case .failure(let failure):
            return .failure(LeafError("the local authority is not written in time (\(failure))"))
        }
    }
}
