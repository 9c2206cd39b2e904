import GatewayApp
import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Every text is read to its end, twice with the same result, and every place that is named lies in the text.
func fuzzYAML(_ bytes: [UInt8]) {
    // Small, so that each of them is met.
    var limits = YAMLLimits()
    (limits.bytes, limits.depth, limits.nodes) = (1500, 12, 200)
    let document = YAMLLoader(limits: limits).load(bytes, file: 0)
    let again = YAMLLoader(limits: limits).load(bytes, file: 0)
    precondition(document.root == again.root)
    precondition(document.diagnostics == again.diagnostics)
    precondition(document.lines == again.lines)
    precondition(document.root != nil || !document.diagnostics.isEmpty)
    for diagnostic in document.diagnostics {
        check(diagnostic.span, document)
        if let related = diagnostic.related { check(related.span, document) }
    }
    if let root = document.root {
        var nodes = 0
        check(root, document, limits, depth: 1, &nodes)
    }
    checkPlan(bytes)
}

private func check(_ span: SourceSpan, _ document: YAMLDocument) {
    precondition(span.file == 0 && span.line >= 1 && span.column >= 1 && span.length >= 1)
    precondition(span.line <= max(1, document.lines.count))
    guard document.lines.indices.contains(span.line - 1) else { return }
    // Behind the last character is where something is missing.
    let width = document.lines[span.line - 1].unicodeScalars.count
    precondition(span.column <= width + 1)
    precondition(span.column + span.length - 1 <= max(width, span.column))
}

private func check(_ node: ConfigNode, _ document: YAMLDocument, _ limits: YAMLLimits, depth: Int, _ nodes: inout Int) {
    nodes += 1
    precondition(depth <= limits.depth && nodes <= limits.nodes)
    check(node.span, document)
    switch node.content {
    case .scalar: break
    case .sequence(let elements):
        for element in elements { check(element, document, limits, depth: depth + 1, &nodes) }
    case .mapping(let entries):
        precondition(Set(entries.map(\.key)).count == entries.count)
        for entry in entries {
            check(entry.keySpan, document)
            check(entry.value, document, limits, depth: depth + 1, &nodes)
        }
    }
}

/// The text as a configuration: there is a plan or a problem, and a terminal can show the report.
private func checkPlan(_ bytes: [UInt8]) {
    let loader = ConfigLoader(files: OneFile(bytes: bytes), environment: NoSecrets().environment)
    let outcome = loader.plan(
        at: "a.yaml",
        catalog: StrategyCatalog([]),
        presets: PresetLibrary(),
        secrets: NoSecrets()
    )
    precondition((outcome.plan == nil) == outcome.diagnostics.contains { $0.severity == .error })
    let report = outcome.report(consequence: "nothing was started")
    precondition(report.isEmpty == outcome.diagnostics.isEmpty)
    precondition(report.unicodeScalars.allSatisfy { isPrintable($0) })
}

private func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
    scalar == "\n" || scalar == "\t" || (scalar.value >= 0x20 && !(0x7F...0x9F).contains(scalar.value))
}

/// A file that may include itself, and nothing else.
private struct OneFile: ConfigFileSource {
    let bytes: [UInt8]

    func absolutePath(_ path: String) -> String { path.hasPrefix("/") ? path : "/\(path)" }
    func read(_ path: String, limit: Int) throws(ConfigFileError) -> [UInt8] {
        guard path == "/a.yaml" else { throw ConfigFileError("no such file") }
        return Array(bytes.prefix(limit))
    }
    func names(in folder: String) -> [String] { ["a.yaml"] }
}

private struct NoSecrets: SecretSource {
    func environment(_ name: String) -> String? { name == "A" ? "a value" : nil }
    func file(_ path: String) throws(UnusableInput) -> Secret { throw UnusableInput("no such file") }
    func program(_ program: SecretProgram) throws(UnusableInput) -> Secret { throw UnusableInput("it failed") }
    func systemdCredential(_ name: String) throws(UnusableInput) -> Secret { throw UnusableInput("not set") }
    func certificates(_ path: String) throws(UnusableInput) -> String { throw UnusableInput("no such file") }
    func fits(_ tls: ClientTLS) -> Bool { true }
}
