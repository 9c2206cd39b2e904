import GatewayAudit
package import GatewayEvents
import GatewayHTTP

/// Finds what happened to the requests with an ID: among those in memory, and in the audit log.
package struct RequestArchive: Sendable {
    /// The number of rows that are read where no index finds those of an id.
    private static let newestRows = 500_000
    private static let maximumRows = 200
    private static let deadline: Duration = .seconds(3)

    let audit: AuditPlan
    /// Finds requests in memory; nil without a gateway.
    let recent: (@Sendable (String) -> [RequestUse])?

    private let questions: AuditQuestions

    /// - Parameter questions: Shared with others who ask; nil without a gateway.
    package init(
        audit: AuditPlan,
        questions: AuditQuestions? = nil,
        recent: (@Sendable (String) -> [RequestUse])?
    ) {
        self.audit = audit
        self.questions = questions ?? AuditQuestions(path: audit.path)
        self.recent = recent
    }

    /// - Parameter asker: Who asks, where several do.
    package func history(of id: String, for asker: String? = nil) async -> RequestHistory {
        var remarks: [String] = []
        let inMemory = recent?(id) ?? []
        if recent != nil {
            remarks.append("the last \(RecentRequests.perWorker) requests of each worker, in memory")
        }
        let answer = await Deadline.value(within: Self.deadline) { [questions] in
            let found = await questions.ask(by: asker) { reader in
                do throws(AuditError) {
                    let found = try await reader.request(
                        id,
                        newest: Self.newestRows,
                        limit: Self.maximumRows,
                        within: Self.deadline
                    )
                    return Result<AuditedRequest, AuditError>.success(found)
                } catch {
                    return .failure(error)
                }
            }
            return found ?? .failure(AuditError("other questions to it are being answered; ask again"))
        }
        remarks += self.remarks(on: answer, of: id)
        let audited = (try? answer?.get()) ?? AuditedRequest()
        let known =
            inMemory.map { RequestHistory.Request($0) } + audited.requests.map { RequestHistory.Request($0) }
            + audited.events.compactMap { RequestHistory.Request($0, of: id) }
        var events: [String: [RequestHistory.Event]] = [:]
        for row in audited.events { events[row.owner(asked: id), default: []].append(RequestHistory.Event(row)) }
        return RequestHistory(id: id, known: known, events: events, remarks: remarks)
    }

    private func remarks(on answer: Result<AuditedRequest, AuditError>?, of id: String) -> [String] {
        let rest = GatewayCommand.line("audit", "query", "--request", id) + " looks at all"
        switch answer {
        case nil, .failure(.tookTooLong)?:
            return ["the audit log did not answer within \(ConfigUnits.text(Self.deadline)); \(rest)"]
        case .failure(let error)?: return ["the audit log cannot be read: \(error.reason)"]
        case .success(let audited)?:
            let kept = audit.usage == .request ? "" : "; it has a row for each request with audit.usage: request only"
            let searched =
                switch audited.coverage {
                case .whole: "the audit log"
                case .newestOfSeveral:
                    "the audit log, but rows that count several requests only among its newest \(Self.newestRows)"
                case .newest: "the newest \(Self.newestRows) rows of the audit log"
                }
            let found = audited.isCut ? ", whose first \(Self.maximumRows) rows of this ID are shown" : ""
            guard audited.coverage != .whole || audited.isCut else { return [searched + kept] }
            return [searched + found + kept + "; \(rest)"]
        }
    }
}

extension AuditRow {
    /// The request that the row is told of: its own, or the one that was asked for where it counts several.
    fileprivate func owner(asked id: String) -> String {
        guard let requestID, requestID != id, member("requests")?.split(separator: " ").contains(Substring(id)) == true
        else { return requestID ?? id }
        return id
    }
}

/// A request as rows of the audit log have it.
extension RequestHistory.Request {
    fileprivate init(_ row: AuditRequestRow) {
        self.init(requestId: row.requestID, at: row.at)
        clientRequestId = row.clientRequestID
        route = row.route.isEmpty ? nil : row.route
        client = row.client
        method = row.method
        status = Int(clamping: row.status)
        problem = row.problem
        reason = row.reason
        credential = row.credential
        generation = row.generation.map { Int(clamping: $0) }
        wasReplayed = row.wasReplayed
        bytesReceived = Int(clamping: row.bytesReceived)
        bytesSent = Int(clamping: row.bytesSent)
        times = RequestHistory.Times(
            credential: row.credentialMilliseconds.map { Int(clamping: $0) },
            connection: row.connectionMilliseconds.map { Int(clamping: $0) },
            response: row.responseMilliseconds.map { Int(clamping: $0) },
            total: Int(clamping: row.durationMilliseconds)
        )
    }

    /// What the event of a failure says of its request; nil for any other event.
    fileprivate init?(_ row: AuditRow, of id: String) {
        guard [TokenEvent.Name.requestFailed.rawValue, TokenEvent.Name.clientDenied.rawValue].contains(row.event) else {
            return nil
        }
        let owner = row.owner(asked: id)
        self.init(requestId: owner, at: row.at)
        client = row.client
        route = row.route?.isEmpty == true ? nil : row.route
        credential = row.credential
        generation = row.generation.map { Int(clamping: $0) }
        status = row.httpStatus.map { Int(clamping: $0) }
        reason = row.errorCode
        method = row.member("method")
        peer = row.member("peer")
        problem = row.member("problem") ?? row.errorCode.flatMap { ProblemKind(rawValue: $0)?.rawValue }
        explanation = row.member("explanation")
        command = row.member("command")
        engine = row.member("engine")
        countedWith = row.member("count").flatMap { Int($0) }
        // What follows is of the first of those that a row counts.
        guard owner == row.requestID else { return }
        clientRequestId = row.clientRequestID
        path = row.member("path")
        wasReplayed = row.member("replayed") == "true"
        let total = row.durationMilliseconds.map { Int(clamping: $0) }
        times = total.map { total in
            RequestHistory.Times(
                credential: row.member("credential_ms").flatMap { Int($0) },
                connection: row.member("connection_ms").flatMap { Int($0) },
                response: row.member("response_ms").flatMap { Int($0) },
                total: total
            )
        }
    }
}

extension RequestHistory.Event {
    fileprivate init(_ row: AuditRow) {
        self.init(at: row.at, event: row.event, failed: row.failed)
        credential = row.credential
        generation = row.generation.map { Int(clamping: $0) }
        trigger = row.trigger
        httpStatus = row.httpStatus.map { Int(clamping: $0) }
        errorCode = row.errorCode
        milliseconds = row.durationMilliseconds.map { Int(clamping: $0) }
    }
}
