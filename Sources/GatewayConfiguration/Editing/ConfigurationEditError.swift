/// Why a configuration is not edited. Nothing was changed.
package struct ConfigurationEditError: Error, Hashable, Sendable {
    package let message: String
    /// Where the reason stands, counted from 1.
    package let line: Int?

    init(_ message: String, line: Int? = nil) {
        self.message = message
        self.line = line
    }

    /// With the place, as diagnostics write it.
    ///
    /// - Parameter file: As people know it.
    package func text(in file: String) -> String { line.map { "\(file):\($0): \(message)" } ?? "\(file): \(message)" }
}
