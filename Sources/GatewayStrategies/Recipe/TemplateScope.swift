import GatewayCore

/// The names that a template may use where it stands, and the reading of templates from the configuration.
struct TemplateScope {
    /// Plain values of the configuration; they are filled in when it is read.
    var constants: [String: String] = [:]
    /// Secrets, the token at hand, and what earlier steps have put aside.
    var names: Set<String> = []

    private var known: [String] { (names.union(constants.keys)).sorted() }

    func template(_ key: String, in fields: ConfigFields, _ escaping: Template.Escaping = .none) -> Template? {
        guard let text = fields.string(key) else { return nil }
        do throws(Template.Mistake) {
            return try template(text, escaping)
        } catch {
            fields.error(key, error.message)
            return nil
        }
    }

    func template(_ text: String, _ escaping: Template.Escaping = .none) throws(Template.Mistake) -> Template {
        let template = try Template(text)
        for name in template.names where !names.contains(name) && constants[name] == nil {
            let hint = Suggestion.hint(for: name, in: known)
            let others = known.isEmpty ? "there are none here" : "known here: \(known.joined(separator: ", "))"
            throw Template.Mistake(message: "nothing is named \"{{\(name)}}\"\(hint.isEmpty ? "; \(others)" : hint)")
        }
        return template.settling(constants, escaping)
    }

    /// A mapping of names to templates, in file order.
    func templates(_ key: String, in fields: ConfigFields) -> [(name: String, value: Template)]? {
        guard let own = fields.fields(key) else { return nil }
        return own.chosenNames().compactMap { name in template(name, in: own).map { (name, $0) } }
    }
}
