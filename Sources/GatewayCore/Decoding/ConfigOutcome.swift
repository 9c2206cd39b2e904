/// What became of a configuration: a plan, or the problems that stand in its way; warnings in both cases.
package struct ConfigOutcome: Sendable {
    package let plan: Plan?
    /// In file order.
    package let diagnostics: [ConfigDiagnostic]
    /// What `preset` can name.
    package let presets: PresetLibrary
    fileprivate let files: [ConfigDocument.File]
    /// What must not be shown of the files.
    package let secretSpans: Set<SourceSpan>
    fileprivate let renderer: DiagnosticRenderer

    /// The diagnostics as people read them, without a secret; empty when there are none.
    ///
    /// - Parameter consequence: See ``DiagnosticRenderer/render(_:consequence:)``.
    package func report(consequence: String) -> String { renderer.render(diagnostics, consequence: consequence) }

    /// The same for programs.
    package var report: DiagnosticReport { DiagnosticReport(diagnostics, files: files) }

    /// Whether there is no error. With ``UnreadSecrets`` there may be no plan all the same.
    package var isValid: Bool { !diagnostics.contains { $0.severity == .error } }
}

extension ConfigLoader {
    /// Text to plan in one go: all problems of all files are in the outcome.
    ///
    /// - Parameter presets: What `preset` can name, without a folder of one's own.
    package func plan(
        at path: String,
        catalog: StrategyCatalog,
        presets: PresetLibrary,
        secrets: any SecretSource
    ) -> ConfigOutcome {
        plan(of: load(path), catalog: catalog, presets: presets, secrets: secrets)
    }

    /// The same of text that is loaded.
    package func plan(
        of loading: Loading,
        catalog: StrategyCatalog,
        presets: PresetLibrary,
        secrets: any SecretSource
    ) -> ConfigOutcome {
        guard let document = loading.document else {
            let renderer = DiagnosticRenderer(files: loading.files, hiding: loading.secretSpans)
            return ConfigOutcome(
                plan: nil,
                diagnostics: loading.diagnostics,
                presets: presets,
                files: loading.files,
                secretSpans: loading.secretSpans,
                renderer: renderer
            )
        }
        let own = ownPresets(of: loading)
        let presets = presets.overridden(by: own.library)
        let decoding = PlanDecoder.decode(
            document,
            after: loading.diagnostics + own.diagnostics,
            catalog: catalog,
            presets: presets,
            secrets: secrets
        )
        let hidden = loading.secretSpans.union(decoding.secretSpans)
        let renderer = DiagnosticRenderer(files: loading.files, hiding: hidden)
        return ConfigOutcome(
            plan: decoding.plan,
            diagnostics: decoding.diagnostics,
            presets: presets,
            files: loading.files,
            secretSpans: hidden,
            renderer: renderer
        )
    }
}
