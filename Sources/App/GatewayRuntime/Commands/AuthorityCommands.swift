import Foundation
import GatewayCore
import GatewayLocalAuthority

/// What `ca …` does: shows the certificates of the local authority.
package struct AuthorityCommands: Sendable {
    private let plan: OperatorPlan

    /// - Parameter configuration: The path of `gateway.yaml`, for the state directory.
    package init(configuration: String) throws(CommandFailure) {
        plan = try OperatorSettings(configuration: configuration).plan
    }

    /// - Parameter showsPath: The file's name instead of its content.
    /// - Returns: The certificates to trust, in PEM.
    package func show(path showsPath: Bool) throws(CommandFailure) -> String {
        let path = LocalAuthority.bundlePath(in: plan.stateDirectory)
        guard let content = try? String(contentsOfFile: path, encoding: .utf8) else {
            throw CommandFailure(
                .failed,
                "there is no local authority in \(plan.stateDirectory); a gateway makes one when it starts with intercept: true"
                    + " (listeners.proxy)"
            )
        }
        return showsPath ? path + "\n" : content
    }
}
