/// Values as bytes to compute a digest of. Each stands behind its length, so no two lists of values give the same bytes.
///
/// Other processes and other versions of the program compare the digests, and stored tokens are found and opened with them, so
/// their format must not change. Each value is added as it was declared:
/// what Swift prints for a value without a `description` of its own (`"\(value)"`) can contain an address in memory, which
/// differs from process to process.
package struct CanonicalBytes: Sendable {
    package private(set) var bytes: [UInt8] = []

    package init() {}

    /// - Parameter capacity: How many bytes there will be, roughly.
    package init(capacity: Int) { bytes.reserveCapacity(capacity) }

    package mutating func add(_ part: some Collection<UInt8>) {
        addDecimal(part.count)
        bytes.append(UInt8(ascii: ":"))
        bytes += part
    }

    /// Without a string: a configuration with many routes adds hundreds of thousands of values.
    private mutating func addDecimal(_ number: Int) {
        if number >= 10 { addDecimal(number / 10) }
        bytes.append(UInt8(ascii: "0") + UInt8(number % 10))
    }

    package mutating func add(_ text: String) { add(text.utf8) }
    package mutating func add(_ number: Int) { add(String(number)) }
    package mutating func add(_ flag: Bool) { add(flag ? 1 : 0) }

    /// As whole seconds and attoseconds.
    package mutating func add(_ duration: Duration) {
        let (seconds, attoseconds) = duration.components
        add("\(seconds) \(attoseconds)")
    }

    package mutating func add(_ texts: [String]) { add(texts) { $0.add($1) } }

    package mutating func add(_ secret: Secret) { secret.withValue { add($0) } }

    /// The number of values comes first.
    package mutating func add<Value>(_ values: [Value], _ add: (inout Self, Value) -> Void) {
        self.add(values.count)
        for value in values { add(&self, value) }
    }

    /// An absent value differs from each present one, an empty string included.
    package mutating func add<Value>(_ value: Value?, _ add: (inout Self, Value) -> Void) {
        guard let value else { return bytes.append(UInt8(ascii: "-")) }
        add(&self, value)
    }

    package mutating func add(_ text: String?) { add(text) { $0.add($1) } }
    package mutating func add(_ secret: Secret?) { add(secret) { $0.add($1) } }
}

/// A value that can be part of a digest.
package protocol CanonicalValue {
    func add(to bytes: inout CanonicalBytes)
}

extension String: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) { bytes.add(self) }
}

extension Int: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) { bytes.add(self) }
}

extension Bool: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) { bytes.add(self) }
}

extension Duration: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) { bytes.add(self) }
}

extension Secret: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) { bytes.add(self) }
}

extension Origin: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) {
        bytes.add(scheme.rawValue)
        // Two spellings of one host may be dialled at different addresses.
        bytes.add(lookupName)
        bytes.add(port)
    }
}

extension Optional: CanonicalValue where Wrapped: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) {
        bytes.add(self) { (bytes: inout CanonicalBytes, value: Wrapped) in value.add(to: &bytes) }
    }
}

extension Array: CanonicalValue where Element: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) {
        bytes.add(self) { (bytes: inout CanonicalBytes, value: Element) in value.add(to: &bytes) }
    }
}
