/// Bytes with secrets in them that are ready to be sent: what ``Secret`` is for text.
package struct SecretBytes: Sendable, CustomStringConvertible, CustomReflectable {
    private let bytes: [UInt8]

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    package var count: Int { bytes.count }

    package var description: String { Secret("").description }
    package var customMirror: Mirror { Mirror(self, children: []) }

    /// Gives access to the bytes for as long as the closure runs. Every call site is reviewed.
    package func withValue<Result>(_ body: ([UInt8]) -> Result) -> Result { body(bytes) }
}
