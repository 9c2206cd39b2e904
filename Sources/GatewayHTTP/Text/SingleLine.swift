extension String {
    /// Fit for one line of a log or a table: control characters and line separators become `\u{..}`.
    ///
    /// - Parameter limit: In bytes; the rest is cut and marked.
    package func singleLine(limit: Int) -> String {
        var result = ""
        for scalar in unicodeScalars {
            guard result.utf8.count < limit else { return result + "…" }
            if scalar.isHarmless {
                result.unicodeScalars.append(scalar)
            } else {
                result += "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
        return result
    }
}
