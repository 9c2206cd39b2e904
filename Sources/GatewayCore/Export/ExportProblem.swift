/// Why no configuration can be written for another proxy: where in the gateway's configuration, what, and what to do.
package struct ExportProblem: Error, Hashable, Sendable, CustomStringConvertible {
    /// The key, for example `routes.box.protocol`.
    package let place: String
    package let message: String

    package init(_ place: String, _ message: String) {
        self.place = place
        self.message = message
    }

    package var description: String { "\(place): \(message)" }
}
