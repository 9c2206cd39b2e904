/// Where in the document something stands: `routes.box.auth`, `listeners.proxy[0].tls`.
package struct ConfigPath: Hashable, Sendable, CustomStringConvertible {
    package private(set) var description: String

    package static let root = ConfigPath(description: "")

    package func appending(_ key: String) -> ConfigPath {
        let key = ShownKey(key).text
        return ConfigPath(description: description.isEmpty ? key : "\(description).\(key)")
    }

    package func appending(_ index: Int) -> ConfigPath { ConfigPath(description: "\(description)[\(index)]") }
}
