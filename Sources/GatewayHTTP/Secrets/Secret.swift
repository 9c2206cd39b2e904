/// A value that must not appear in logs, diagnostics, dumps or plans.
///
/// It can be compared and written into a request; it cannot be printed.
package struct Secret: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    private let value: String

    package init(_ value: String) { self.value = value }

    package var isEmpty: Bool { value.isEmpty }
    package var byteCount: Int { value.utf8.count }

    package var description: String { "‹secret›" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }

    /// Gives access to the value for as long as the closure runs. Every call site is reviewed.
    package func withValue<Result, Failure: Error>(_ body: (String) throws(Failure) -> Result) throws(Failure) -> Result
    {
        try body(value)
    }

    /// Compares in a time that depends on the lengths only, so that a guesser learns nothing from the clock.
    package func matches(_ candidate: some Collection<UInt8>) -> Bool {
        var difference = value.utf8.count ^ candidate.count
        for (mine, theirs) in zip(value.utf8, candidate) {
            difference |= Int(mine ^ theirs)
        }
        return difference == 0
    }
}

/// Where a person who has to replace a secret finds it.
package struct SecretOrigin: Hashable, Sendable {
    /// `the environment variable API_KEY (gateway.yaml:12)`
    package let words: String
    /// The gateway has the new value only after a restart.
    package let isVariable: Bool

    package init(words: String, isVariable: Bool) { (self.words, self.isVariable) = (words, isVariable) }
}

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
