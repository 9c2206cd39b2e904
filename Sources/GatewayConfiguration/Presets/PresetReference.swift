/// What `preset:` names: `box`, or one of its routes, `box/upload`.
struct PresetReference: Hashable {
    let preset: String
    let route: String?

    init(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        preset = String(parts[0])
        route = parts.count > 1 ? String(parts[1]) : nil
    }
}
