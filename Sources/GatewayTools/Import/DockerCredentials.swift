package import GatewayHTTP
import GatewayProxy

/// Reads the `config.json` of docker: what `docker login` has left there.
package enum DockerCredentials {
    /// The presets of registries that take the password at a token server (strategy `registry`), by the origins of docker's file.
    package static let presets = [
        "https://docker.io": "docker-hub",
        "https://index.docker.io": "docker-hub",
        "https://registry-1.docker.io": "docker-hub",
        "https://ghcr.io": "ghcr",
        "https://quay.io": "quay",
    ]

    package static func services(_ bytes: [UInt8]) throws(UnusableInput) -> ImportFindings {
        guard let file = JSONValue(bytes), case .object = file else {
            throw UnusableInput("The file is not a JSON object, or is too large.")
        }
        var findings = ImportFindings()
        for (registry, entry) in members(file["auths"]) {
            add(registry, entry, store: file["credsStore"]?.string, &findings)
        }
        for (registry, helper) in members(file["credHelpers"]) {
            noteHelper(helper.string ?? "", of: registry, &findings)
        }
        guard findings.services.count <= ImportFindings.maximumServices else {
            throw UnusableInput("The file has more than \(ImportFindings.maximumServices) registries.")
        }
        if findings.services.contains(where: { $0.preset == nil }) {
            findings.note(
                "A registry that answers with a Bearer challenge takes the password at its token server only. "
                    + "Use strategy: registry for it."
            )
        }
        return findings
    }

    private static func members(_ value: JSONValue?) -> [(key: String, value: JSONValue)] {
        guard case .object(let members)? = value else { return [] }
        return members.sorted { $0.key < $1.key }
    }

    private static func add(_ registry: String, _ entry: JSONValue, store: String?, _ findings: inout ImportFindings) {
        let shown = ShownText.clean(registry, limit: 80)
        guard let text = entry["auth"]?.string, !text.isEmpty else {
            if let store { return noteHelper(store, of: registry, &findings) }
            return findings.note("\(shown) has no password. It was left out.")
        }
        guard let bytes = Base64.decode(text),
            let login = ImportedLogin.reading(userInfo: String(decoding: bytes, as: UTF8.self)),
            let origin = (try? RequestURL(registry.contains("://") ? registry : "https://\(registry)"))?.origin
        else { return findings.note("The entry of \(shown) cannot be read. It was left out.") }
        let preset = presets[origin.description]
        findings.add(ImportedService(upstream: origin.description, login: login, name: preset, preset: preset))
    }

    private static func noteHelper(_ helper: String, of registry: String, _ findings: inout ImportFindings) {
        let (registry, helper) = (ShownText.clean(registry, limit: 80), ShownText.clean(helper, limit: 40))
        findings.note(
            "The password of \(registry) is in docker-credential-\(helper), which prints it together with other things. It was left out."
        )
    }
}
