import GatewayHTTP

extension TokenEvent {
    /// The row of the audit log for some failures or denials; nil for what only the access log counts.
    package init?(_ row: RequestReports<RequestUse>.Row) {
        let use = row.sample
        let name: Name
        var detail = row.detail
        switch row.key {
        case .failed: name = .requestFailed
        case .denied(_, _, let reason):
            name = .clientDenied
            detail["reason"] = reason.rawValue
        case .stray: return nil
        }
        self.init(
            at: use.at,
            name: name,
            credential: row.isMixed ? nil : use.credential ?? use.failure?.credential,
            generation: row.isMixed ? nil : use.generation,
            demand: CredentialRequest(
                route: row.isMixed ? "" : use.route,
                client: row.isMixed ? nil : use.client,
                requestID: use.requestID,
                clientRequestID: use.clientRequestID
            ),
            outcome: .failed,
            httpStatus: use.status == 0 ? nil : use.status,
            errorCode: use.failure?.reason.description,
            duration: use.duration,
            detail: detail
        )
    }
}

extension RequestReports<RequestUse>.Row {
    /// It counts requests that had no row of their own, of several routes or addresses.
    package var isMixed: Bool { key == key.merged }

    /// What has no column of its own, by the names that the log has, too.
    package var detail: [String: String] {
        let use = sample
        var detail = ["method": use.method]
        if let failure = use.failure {
            detail["peer"] = isMixed ? nil : failure.place.peer
            detail["path"] = isMixed || failure.place.path.isEmpty ? nil : failure.place.path
            detail["explanation"] = failure.explanation
            detail["command"] = failure.command
            detail["cause"] = failure.cause?.code
            if let problem = use.problem, problem.rawValue != failure.reason.description {
                detail["problem"] = problem.rawValue
            }
            if failure.isCut { detail["cut"] = "true" }
        }
        detail["engine"] = use.engine
        if use.wasReplayed { detail["replayed"] = "true" }
        let timings = [
            ("credential_ms", use.timings.credential), ("connection_ms", use.timings.connection),
            ("response_ms", use.timings.response),
        ]
        for (name, time) in timings { detail[name] = time.map { String($0.wholeMilliseconds) } }
        if count > 1 {
            detail["count"] = String(count)
            detail["requests"] = ids.joined(separator: " ")
        }
        return detail.filter { !$0.value.isEmpty }
    }
}
