extension Int {
    /// `1 route`, `2 routes`: for nouns whose plural ends with `s`.
    package func counted(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}
