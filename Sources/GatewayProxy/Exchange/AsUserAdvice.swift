import GatewayCore
import Logging
import NIOCore

/// Explains why Box refuses `as_user`. It is set up in Box's console, which the response does not say.
///
/// The response is forwarded unchanged. The log line is for the author of the configuration.
enum AsUserAdvice {
    private static let text =
        "as_user needs the token of a service account or an administrator, and \"Make API calls using the as-user header\""
        + " among the app's settings in Box's developer console, authorized again after the change; or this call needs a"
        + " scope that the app lacks"

    static func log(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        of route: CompiledRoute,
        to shared: ProxyShared
    ) {
        guard !route.asUserLine.isEmpty else { return }
        let challenges = AuthChallenge.all(in: head, bytes.readableBytesUInt8Span)
        guard challenges.contains(where: { $0.parameters["error"] == "insufficient_scope" }),
            route.mayExplain(at: shared.clock.monotonic())
        else { return }
        shared.logger.warning(
            "Upstream refused as_user (403, insufficient_scope)",
            metadata: [
                "gateway.route": "\(route.plan.name)", "gateway.credential": "\(route.credentialName ?? "")",
                "gateway.reason": "\(text)",
            ]
        )
    }
}
