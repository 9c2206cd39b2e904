/// What a conformance kit throws: the promise that was broken, and how.
package struct ConformanceFailure: Error, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

func promise(_ holds: Bool, _ sentence: @autoclosure () -> String) throws {
    guard holds else { throw ConformanceFailure(sentence()) }
}
