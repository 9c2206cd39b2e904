import GatewayCore

/// A token in the path of a request, as `path: "/bot{{token}}"` says: behind the base path of the upstream.
struct PathPlacement: Hashable {
    private let template: Template

    /// - Parameter scope: The names that may stand in it; the token is one of them.
    init?(_ key: String, in fields: ConfigFields, scope: TemplateScope) {
        guard let template = scope.template(key, in: fields) else { return nil }
        let sample = template.names.reduce(into: [:]) { $0[$1] = Secret("x") }
        guard let path = try? template.filled(from: sample), path.withValue(Self.isPath) else {
            fields.error(key, "expected a path such as \"/bot{{token}}\", without a query and a slash at its end")
            return nil
        }
        guard template.names.filter({ $0 == TokenPlacement.token }).count == 1 else {
            fields.error(key, "must hold {{token}} once")
            return nil
        }
        self.template = template
    }

    /// Segments of plain characters: nothing in them means another path.
    private static func isPath(_ text: String) -> Bool {
        guard text.hasPrefix("/"), text.utf8.allSatisfy(isPlain) else { return false }
        let segments = text.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
        return segments.allSatisfy { !$0.isEmpty && $0 != "." && $0 != ".." }
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: Array("/-._~!$&*=:@".utf8).contains(byte)
        }
    }

    /// Why no path can be made; nil when one can.
    func obstacle(_ values: [String: Secret]) -> String? {
        guard let filled = try? template.filled(from: values, .segment) else {
            return "something that \"path\" needs is missing"
        }
        let segments = filled.withValue { $0.split(separator: "/", omittingEmptySubsequences: false).dropFirst() }
        // A server would leave the path out, or go to the one above.
        guard segments.allSatisfy({ !$0.isEmpty && $0 != "." && $0 != ".." }) else {
            return "it is empty or made of dots, which means another path"
        }
        return nil
    }

    /// nil where a value is missing.
    func injected(_ values: [String: Secret]) -> Injection.Path? {
        guard obstacle(values) == nil, let secret = values[TokenPlacement.token],
            let value = try? template.filled(from: values, .segment)
        else { return nil }
        return Injection.Path(template: template.shown, value: value, secret: secret)
    }
}
