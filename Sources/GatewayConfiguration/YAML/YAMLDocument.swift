/// What a YAML text says, or why it says nothing.
package struct YAMLDocument: Sendable {
    /// nil when the text could not be read to its end.
    package let root: ConfigNode?
    /// In the order in which they were found.
    package let diagnostics: [ConfigDiagnostic]
    package let lines: [String]
}

/// The bounds that keep a hostile or mistaken document from costing time or memory.
package struct YAMLLimits: Sendable {
    package var bytes = 16 << 20
    package var depth = 64
    /// Counts what aliases stand for, so that a few lines cannot expand into millions of nodes.
    package var nodes = 1_000_000

    package init() {}

    package init(_ size: ConfigurationSize) { (bytes, nodes) = (size.bytes, size.nodes) }
}
