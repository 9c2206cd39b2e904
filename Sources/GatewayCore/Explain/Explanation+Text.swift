extension Explanation {
    /// As people read it, with its line breaks.
    ///
    /// - Parameter width: Of the terminal; nil for lines of any length.
    package func text(width: Int? = nil) -> String {
        var page = LabelledLines(width: width)
        page.addLine(verdict)
        page.addLine("")
        if source != .gateway { page.add("source", Self.words(for: source)) }
        page.add("request", arrivalText)
        for remark in request.remarks { page.add("note", remark) }
        for (index, step) in steps.enumerated() {
            // What follows within one check says more of it.
            let goesOn = index > 0 && steps[index - 1].name == step.name && !steps[index - 1].passes
            page.add(step.name, step.passes || goesOn ? step.text : "refused: \(step.text)")
            if step.name == "route" { addOthers(to: &page) }
        }
        if let refusal { add(refusal, to: &page) }
        if let departure { add(departure, to: &page) }
        return page.text
    }

    private static func words(for source: Source) -> String {
        switch source {
        case .gateway: "the running gateway"
        case .store: "no gateway runs; this is the configuration file, with the tokens of the store"
        case .configuration: "no gateway runs; this is the configuration file alone"
        }
    }

    private var arrivalText: String {
        let line = "\(request.method) \(request.target)"
        return switch request.way {
        case .direct: "\(line), Host \(request.host), to \(request.listener.name)"
        case .proxy: "\(line), to \(request.listener.name) as a proxy"
        case .connect: "CONNECT \(request.target), to \(request.listener.name) as a proxy"
        }
    }

    /// Far ones are counted where there are many.
    private func addOthers(to page: inout LabelledLines) {
        let shown = otherRoutes.prefix(8)
        for other in shown { page.add("", "not \(other.name): \(other.reason)") }
        if otherRouteCount > shown.count { page.add("", "and not \(otherRouteCount - shown.count) more") }
    }

    private func add(_ refusal: Refusal, to page: inout LabelledLines) {
        page.add("answer", "\(refusal.status) \(refusal.code): \(refusal.detail)")
        if let detail = refusal.detailForClient { page.add("", "the client is told only: \(detail)") }
        page.addCommand(refusal.command, under: "Run:")
        page.addCommand(ErrorEntry.command(explaining: refusal.code), under: LabelledLines.codeTitle)
    }

    private func add(_ departure: Departure, to page: inout LabelledLines) {
        for field in departure.added { page.add("added", "\(field.name): \(field.value)") }
        for field in departure.removed { page.add("removed", "\(field.name): \(field.reason)") }
        page.addLine("")
        page.addLine("The upstream gets:")
        page.addLine("  \(departure.line)")
        for field in departure.fields { page.addLine("  \(field.name): \(field.value)") }
    }
}

/// Lines with a label before each, which is not repeated.
struct LabelledLines {
    private let width: Int?
    private var last = ""
    private(set) var text = ""

    /// As wide as the longest label, with two spaces.
    private static let margin = 12

    init(width: Int?) { self.width = width }

    /// A line without a label, however long.
    mutating func addLine(_ line: String) {
        text += line + "\n"
        last = ""
    }

    /// What stands above a command that explains an error code.
    static let codeTitle = "What the code means:"

    /// A command to type, on a line of its own. Nothing where there is none.
    mutating func addCommand(_ command: String?, under title: String) {
        guard let command else { return }
        addLine("")
        addLine(title)
        addLine("  \(command)")
    }

    /// - Parameter label: Empty for a line that belongs to the one before.
    mutating func add(_ label: String, _ value: String) {
        let shown = label == last ? "" : label
        if !label.isEmpty { last = label }
        var indent = shown + String(repeating: " ", count: max(1, Self.margin - shown.count))
        var line = ""
        for word in value.split(separator: " ") {
            if let width, !line.isEmpty, indent.count + line.count + 1 + word.count > width {
                text += indent + line + "\n"
                indent = String(repeating: " ", count: Self.margin)
                line = ""
            }
            line += line.isEmpty ? String(word) : " \(word)"
        }
        text += indent + line + "\n"
    }
}
