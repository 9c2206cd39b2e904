package import GatewayHTTP

extension Limits {
    /// - Parameter length: The length of the content, as far as it is known.
    /// - Returns: nil while the content is within `limits.request_body_bytes`.
    package func refusal(ofContent length: Int) -> GatewayProblem? {
        guard let maximum = requestBodyBytes, length > maximum else { return nil }
        let limit = "limits.request_body_bytes: \(ConfigUnits.text(bytes: maximum))"
        return GatewayProblem(.contentTooLarge, "The request was refused: body too long (\(limit)).")
    }

    /// The whole body is needed before the request is sent, and it is too long to be collected.
    ///
    /// - Parameters:
    ///   - readsCalls: Whether a rule reads the calls in it; otherwise the signature covers all of it.
    ///   - isForApproval: Whether an operator has to approve it.
    package func uncollectableBody(readsCalls: Bool, isForApproval: Bool = false) -> GatewayProblem {
        let limit = "limits.replay_body_bytes: \(ConfigUnits.text(bytes: replayBodyBytes))"
        let reason =
            readsCalls
            ? "the gateway has to read the call in it before it sends anything"
            : isForApproval
                ? "an operator has to approve all of it, so the gateway has to keep it"
                : "the signature covers all of it, so the gateway has to keep it"
        return GatewayProblem(.contentTooLarge, "The body is too long: \(reason) (\(limit)).")
    }

    /// The form of a captured login is longer than what can be collected.
    var uncollectableForm: OAuthAnswer {
        let limit = "limits.replay_body_bytes: \(ConfigUnits.text(bytes: replayBodyBytes))"
        return OAuthAnswer(error: "invalid_request", "The form is too long (\(limit)).")
    }
}

/// What is said about an exchange that stalls.
extension Stall {
    /// What the client is told.
    ///
    /// - Parameter timeouts: The timeouts of the route.
    package func problem(_ timeouts: RoutePlan.Timeouts, _ limits: Limits) -> GatewayProblem {
        switch self {
        case .requestStopped: GatewayProblem(.requestTimeout, "The client stopped sending the request body.")
        case .clientStoppedReading:
            GatewayProblem(
                .requestTimeout,
                "The client stopped reading the response.",
                hopError: .responseNotTaken
            )
        case .upstreamStoppedReading:
            GatewayProblem(
                .upstreamTimeout,
                "The upstream stopped reading the request body.",
                hopError: .requestNotTaken
            )
        case .upstreamSilent:
            GatewayProblem(
                .upstreamTimeout,
                "The upstream did not answer within \(limits.responseTimeoutText(timeouts)).",
                hopError: .responseTimeout
            )
        case .responseStopped:
            GatewayProblem(
                .upstreamTimeout,
                "The upstream sent nothing more of its response for \(limits.responsePauseText(timeouts)).",
                hopError: .responseTimeout
            )
        case .tunnelSilent:
            GatewayProblem(
                .upstreamTimeout,
                "Neither end of the tunnel sent anything for \(limits.responsePauseText(timeouts)).",
                hopError: .tunnelTimeout
            )
        }
    }
}

/// A limit as messages name it.
extension Limits {
    /// The timeout as text, with the key that it comes from.
    fileprivate func responseTimeoutText(_ route: RoutePlan.Timeouts) -> String {
        Self.text(responseTimeout(of: route), isOfRoute: route.response != nil, "timeouts.response")
    }

    fileprivate func responsePauseText(_ route: RoutePlan.Timeouts) -> String {
        Self.text(responsePause(of: route), isOfRoute: route.idle != nil, "timeouts.idle")
    }

    private static func text(_ limit: Duration, isOfRoute: Bool, _ key: String) -> String {
        let place = isOfRoute ? "\(key) of the route" : "limits.response_timeout; a route can set \(key)"
        return "\(ConfigUnits.text(limit)) (\(place))"
    }
}

/// What is said about each way in which an exchange fails.
extension ExchangeProblem {
    /// What the client is told.
    ///
    /// - Parameters:
    ///   - timeouts: The timeouts of the route.
    ///   - upstream: As the route names it.
    ///   - credential: The name of the credential that the request goes with.
    /// - Returns: nil for `reported`.
    package func problem(
        upstream: String,
        credential: String?,
        timeouts: RoutePlan.Timeouts,
        limits: Limits
    ) -> GatewayProblem? {
        switch self {
        case .reported: nil
        case .withdrawn:
            GatewayProblem(
                .locked,
                "\(credential ?? "The credential") was withdrawn while this request was in progress.",
                retryAfter: .seconds(1)
            )
        case .excluded:
            GatewayProblem(
                .draining,
                "A reload has removed or replaced the client, the route or the credential of this request, or a rule refuses it now.",
                retryAfter: .seconds(1)
            )
        case .connectionReset:
            GatewayProblem(
                .draining,
                "The gateway reset its connection to \(upstream): another request on it was still being sent when a lock, a revocation or a"
                    + " reload ended it. The upstream may have acted on this request.",
                retryAfter: .seconds(1)
            )
        case .upstreamClosedEarly:
            GatewayProblem(
                .upstreamUnreachable,
                "\(upstream) closed the connection early.",
                hopError: .connectionTerminated
            )
        case .upstreamAlerted(let alert):
            GatewayProblem(
                .upstreamUnreachable,
                alert.detail(of: upstream, owner: "the route"),
                hopError: .handshakeFailed
            )
        case .upstreamLeft(let farewell, let isUnread):
            GatewayProblem(
                .upstreamUnreachable,
                farewell.detail(of: upstream, isUnread: isUnread),
                retryAfter: isUnread ? .seconds(1) : nil,
                hopError: .connectionTerminated
            )
        case .upstreamRefused:
            GatewayProblem(
                .upstreamBusy,
                "\(upstream) refused the request without processing it.",
                retryAfter: .seconds(1)
            )
        case .protocolNotOffered:
            GatewayProblem(.upgradeFailed, "\(upstream) switched to a protocol that was not requested.")
        case .stalled(let stall): stall.problem(timeouts, limits)
        }
    }

    /// How long a client may take what was written of a response that is cut. nil: as long as it takes something.
    var cutLimit: Duration? {
        switch self {
        // The operator is promised that responses are cut within a second.
        case .withdrawn, .excluded: .milliseconds(900)
        case .stalled(.clientStoppedReading), .stalled(.tunnelSilent): .zero
        case .reported, .connectionReset, .upstreamClosedEarly, .upstreamAlerted, .upstreamLeft, .upstreamRefused,
            .protocolNotOffered,
            .stalled:
            nil
        }
    }
}

extension HTTP2Farewell {
    /// - Parameter isUnread: The upstream has not looked at the request.
    fileprivate func detail(of upstream: String, isUnread: Bool) -> String {
        guard endsConnection else { return "\(upstream) ended the stream of the request early (\(words))." }
        guard isUnread else { return "\(upstream) closed the connection early (\(words))." }
        let guess = isOrderly ? "; it may be restarting" : ""
        let again = "The request can be sent again."
        return "\(upstream) closed the connection (\(words)) before it read the request\(guess). \(again)"
    }
}

/// What is said about a head that is refused.
extension HeadRefusal {
    /// - Parameter subject: What was refused, for example `The request was`.
    package func problem(_ subject: String, under limits: Limits) -> GatewayProblem {
        GatewayProblem(kind, "\(subject) refused: \(rawValue)\(addition(limits)).")
    }

    /// The limit that was reached, so that a person can keep to it or raise it; or what to do instead.
    private func addition(_ limits: Limits) -> String {
        switch self {
        case .targetTooLong, .headTooLarge: " (limits.header_bytes: \(ConfigUnits.text(bytes: limits.headerBytes)))"
        case .tooManyFields: " (limits.header_fields: \(limits.headerFields))"
        case .tooManyNominated: " (\(ConnectionOptions.maximumNominated) at most)"
        case .methodRefused: " (TRACE is not passed on)"
        default: ""
        }
    }
}
