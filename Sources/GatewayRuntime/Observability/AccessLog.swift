import GatewayCore
import Logging

/// Writes a line for every request.
struct AccessLog: Sendable {
    let logger: Logger

    /// - Parameter name: Of a route, by its number.
    func write(_ record: borrowing ExchangeRecord, name: (Int) -> String?) {
        var data: Logger.Metadata = [
            "request_id": "\(record.requestID)", "method": "\(record.method)", "status": "\(record.status)",
            "received": "\(record.bytesReceived)", "sent": "\(record.bytesSent)",
            "ms": "\((record.finishedAt - record.startedAt).wholeMilliseconds)",
        ]
        if let id = record.clientRequestID { data["client_request_id"] = "\(id)" }
        if let route = record.route.flatMap(name) { data["route"] = "\(route)" }
        if let destination = record.destination { data["destination"] = "\(destination)" }
        if let client = record.client { data["client"] = "\(client)" }
        if let problem = record.problem { data["problem"] = "\(problem.rawValue)" }
        if let credential = record.credential {
            data["credential"] = "\(credential.name)"
            data["generation"] = "\(credential.generation)"
        }
        if record.wasReplayed { data["replayed"] = "true" }
        if let failure = record.failure { data["reason"] = "\(failure.reason)" }
        if let engine = record.engine {
            data["engine"] = "\(engine.name)"
            data["outcome"] = "\(engine.outcome.rawValue)"
        }
        logger.info(record.engine == nil ? "Request" : "Engine answered", metadata: data)
    }
}
