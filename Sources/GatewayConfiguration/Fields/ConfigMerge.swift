/// Makes one tree of the main file and the files that it includes.
///
/// Mappings of named things are joined; anything that is defined twice is a problem that names both places.
package struct ConfigMerge {
    /// The mappings whose entries may come from several files.
    private static let joined: Set<String> = [
        "", "listeners", "access", "access.clients", "audit", "tokens", "limits", "credentials", "routes",
    ]

    package private(set) var diagnostics: [ConfigDiagnostic] = []

    package init() {}

    /// - Parameter roots: The main file first, then the included ones in the order of their names.
    package mutating func merge(_ roots: [ConfigNode]) -> ConfigNode? {
        guard var merged = roots.first else { return nil }
        for root in roots.dropFirst() where !root.isNull {
            guard case .mapping(let entries) = root.content else {
                diagnostics.append(
                    ConfigDiagnostic(.error, "expected a mapping, found \(root.kindName)", at: root.span)
                )
                continue
            }
            // Every file may say which version it is written for.
            let own = entries.filter { !($0.key == "version" && $0.value.isVersionOne) }
            add(ConfigNode(.mapping(own), at: root.span), to: &merged, path: .root)
        }
        return merged
    }

    private mutating func add(_ addition: ConfigNode, to node: inout ConfigNode, path: ConfigPath) {
        guard case .mapping(var entries) = node.content, case .mapping(let added) = addition.content else { return }
        for entry in added {
            let path = path.appending(entry.key)
            guard let index = entries.firstIndex(where: { $0.key == entry.key }) else {
                entries.append(entry)
                continue
            }
            if entries[index].value.isNull {
                entries[index] = entry
            } else if Self.joined.contains(path.description), entries[index].value.isMapping, entry.value.isMapping {
                add(entry.value, to: &entries[index].value, path: path)
            } else if !entry.value.isNull {
                diagnostics.append(
                    ConfigDiagnostic(
                        .error,
                        "\"\(ShownKey(entry.key).text)\" is defined twice",
                        at: entry.keySpan,
                        path: path,
                        related: ConfigDiagnostic.Related("first defined here", at: entries[index].keySpan)
                    )
                )
            }
        }
        node.content = .mapping(entries)
    }
}

extension ConfigNode {
    fileprivate var isVersionOne: Bool {
        if case .scalar(let scalar) = content { return scalar.text == "1" }
        return false
    }
}
