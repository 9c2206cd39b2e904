extension ConfigFields {
    /// Knows the keys that ``PresetExpansion`` has replaced.
    ///
    /// - Returns: Whether a preset is named.
    @discardableResult
    func readPreset() -> Bool {
        explain(PresetExpansion.meanings)
        _ = fields("with")?.chosenNames()
        context.recorder?.note(.string, for: "preset", of: path)
        return has("preset")
    }

    /// The keys of the preset are not there; ``PresetExpansion`` has said why.
    func noteUnusedPreset() {
        let path = path.appending("preset")
        context.noteUnusedPreset(ConfigDiagnostic(.error, "the preset cannot be used", at: span, path: path))
    }
}

extension PresetExpansion {
    static let meanings: [String: KeyMeaning] = [
        "preset": KeyMeaning(
            "A service that is known by name. It brings the keys that are not written here; authgateway presets lists them.",
            example: "github"
        ),
        "with": KeyMeaning(
            "The parameters of the preset; authgateway presets show NAME lists them.",
            type: "a mapping",
            example: "{domain: example.okta.com}"
        ),
    ]
}
