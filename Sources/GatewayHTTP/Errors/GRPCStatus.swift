/// The statuses of gRPC that the gateway gives or looks at.
///
/// A failure of the gateway is a response of trailers alone: `grpc-status` and `grpc-message` stand in its head, and its HTTP
/// status is 200 (gRPC over HTTP2, "Responses").
package enum GRPCStatus: Int, Sendable {
    case permissionDenied = 7
    case resourceExhausted = 8
    case unimplemented = 12
    case `internal` = 13
    case unavailable = 14
    case unauthenticated = 16

    /// Only a client that did not prove itself is told UNAUTHENTICATED. A gateway that stands before this one would
    /// take it for a rejection of its token.
    package init(_ kind: ProblemKind) {
        self =
            switch kind {
            case .clientAuthRequired, .proxyAuthRequired, .engineAuthRequired, .adminAuthRequired: .unauthenticated
            case .routeForbidden, .approvalRequired, .originRefused: .permissionDenied
            case .contentTooLarge, .fieldsTooLarge, .targetTooLong, .clientLimitReached: .resourceExhausted
            case .noRoute, .misdirected, .methodRefused: .unimplemented
            case .requestRefused, .subjectRequired, .loginFailed, .versionNotSupported, .loop, .upgradeFailed,
                .internalError:
                .internal
            case .requestTimeout, .tokenEndpointUnreachable, .tokenEndpointTimeout, .tokenTemporarilyUnavailable,
                .storeUnavailable,
                .reauthorizationRequired, .credentialMisconfigured, .loginRequired, .staticTokenExpired,
                .auditUnavailable, .upstreamUnreachable, .upstreamInvalidResponse, .upstreamTimeout, .upstreamBusy,
                .destinationProhibited, .locked, .draining, .overloaded:
                .unavailable
            }
    }

    static func fields(of problem: GatewayProblem) -> [ProblemAnswer.Field] {
        [
            .init(name: "Content-Type", value: "application/grpc"),
            .init(name: "Content-Length", value: "0"),
            .init(name: "grpc-status", value: String(GRPCStatus(problem.kind).rawValue)),
            .init(name: "grpc-message", value: message(problem.detail)),
        ]
    }

    /// Percent-encoded: printable ASCII stands for itself, except for `%`.
    private static func message(_ text: String) -> String {
        var message: [UInt8] = []
        for byte in text.utf8 {
            if (0x20..<0x7F).contains(byte), byte != UInt8(ascii: "%") {
                message.append(byte)
            } else {
                PercentEncoding.append(escapeOf: byte, to: &message)
            }
        }
        return String(decoding: message, as: UTF8.self)
    }
}

extension GRPCStatus {
    /// Whether the request is a call of gRPC: its content is `application/grpc`, in any encoding of messages.
    ///
    /// gRPC-Web is not: browsers read the HTTP status.
    package static func isCall(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        for field in head.fields where bytes.equalsLowercased(field.name, "content-type") {
            let type = bytes.string(field.value).lowercased()
            guard type.hasPrefix("application/grpc") else { return false }
            let rest = type.dropFirst("application/grpc".count).first
            return rest == nil || rest == "+" || rest == ";" || rest == " "
        }
        return false
    }
}
