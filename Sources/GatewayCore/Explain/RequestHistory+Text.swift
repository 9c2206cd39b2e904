extension RequestHistory {
    /// As people read it, with its line breaks.
    ///
    /// - Parameter width: Of the terminal; nil for lines of any length.
    package func text(width: Int? = nil) -> String {
        var page = LabelledLines(width: width)
        if requests.isEmpty { page.addLine("No request is known by the id \(ShownText.clean(id, limit: 80)).") }
        for (index, request) in requests.enumerated() {
            if index > 0 { page.addLine("") }
            request.add(to: &page)
        }
        page.addLine("")
        for remark in remarks { page.add("looked at", ShownText.clean(remark)) }
        return page.text
    }
}

extension RequestHistory.Request {
    fileprivate func add(to page: inout LabelledLines) {
        page.addLine(verdict)
        page.addLine("")
        page.add("request", [requestId, clientRequestId.map { "the client's id \($0)" }])
        page.add("ended", [at])
        if let countedWith { page.add("counted", ["in one row with \(countedWith) requests of its kind"]) }
        page.add("client", [client, peer.map { "from \($0)" }])
        page.add("asked for", [path.map { "\(method ?? "") \($0)" }, host.flatMap { $0.isEmpty ? nil : "Host \($0)" }])
        page.add("engine", [engine.map { "\($0) asked about the request" }])
        page.add("route", [route])
        page.add("credential", [credential, generation.map { "generation \($0)" }])
        page.add("reason", [reason == problem ? nil : reason])
        page.add("", [explanation])
        if wasReplayed { page.add("replayed", ["it was sent again with a newer token"]) }
        page.add("time", [times?.text])
        page.add(
            "content",
            [bytesReceived.map { "\($0) bytes from the client" }, bytesSent.map { "\($0) bytes to it" }]
        )
        for event in events { page.add("event", [event.text]) }
        page.addCommand(command.map { ShownText.clean($0) }, under: "Run:")
        page.addCommand(ErrorEntry.command(explaining: problem ?? reason), under: LabelledLines.codeTitle)
    }

    /// One line.
    package var verdict: String {
        let name = [method, route.map { "on route \($0)" }].compactMap(\.self).joined(separator: " ")
        let what = ShownText.clean(name.isEmpty ? "A request" : name)
        let time = times.map { " after \($0.total) ms" } ?? ""
        guard let status else { return "\(what): what it was answered is not known." }
        if let problem { return "\(what): the gateway answered \(status) \(ShownText.clean(problem))\(time)." }
        guard status > 0 else { return "\(what): nothing was answered\(time)." }
        guard engine == nil else { return "\(what): the engine was handed the credential\(time)." }
        return "\(what): the upstream answered \(status)\(time)."
    }
}

extension RequestHistory.Times {
    /// Where the time went: `157 ms: credential 2 ms, connection 31 ms, response head 120 ms, content 4 ms`
    package var text: String {
        // It was refused before it needed anything.
        if total == 0, credential == nil { return "0 ms" }
        var parts: [String] = []
        var last = 0
        for (name, time) in [("credential", credential), ("connection", connection), ("response head", response)] {
            guard let time else {
                parts.append("no \(name) after \(max(0, total - last)) ms")
                return "\(total) ms: " + parts.joined(separator: ", ")
            }
            parts.append("\(name) \(max(0, time - last)) ms")
            last = time
        }
        parts.append("content \(max(0, total - last)) ms")
        return "\(total) ms: " + parts.joined(separator: ", ")
    }
}

extension RequestHistory.Event {
    fileprivate var text: String {
        let facts = [
            credential, generation.map { "generation \($0)" }, trigger, failed ? "failed" : nil,
            httpStatus.map { "status \($0)" }, errorCode, milliseconds.map { "\($0) ms" },
        ]
        return "\(at) \(event): " + facts.compactMap(\.self).joined(separator: ", ")
    }
}

extension LabelledLines {
    /// Nothing where no part is known.
    fileprivate mutating func add(_ label: String, _ parts: [String?]) {
        let known = parts.compactMap(\.self).filter { !$0.isEmpty }.map { ShownText.clean($0, limit: 600) }
        if !known.isEmpty { add(label, known.joined(separator: ", ")) }
    }
}
