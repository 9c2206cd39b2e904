import GatewayConfiguration
import GatewayHTTP
import GatewayTesting

/// Configuration files that exist in a test only.
struct MemoryFiles: ConfigFileSource {
    var files: [String: [UInt8]]
    /// Of the paths that are named here; others have none.
    var places: [String: [FilePlace]] = [:]

    init(_ files: [String: String]) { self.files = files.mapValues { Array($0.utf8) } }

    func absolutePath(_ path: String) -> String { path.hasPrefix("/") ? path : "/work/\(path)" }

    func read(_ path: String, limit: Int) throws(ConfigFileError) -> [UInt8] {
        guard let bytes = files[path] else { throw ConfigFileError("no such file", advice: "name another") }
        return Array(bytes.prefix(limit))
    }

    func places(on path: String) -> [FilePlace] { places[path] ?? [] }

    func names(in folder: String) -> [String] {
        let folder = folder.hasSuffix("/") ? folder : folder + "/"
        return files.keys.filter { $0.hasPrefix(folder) }.map { String($0.dropFirst(folder.count)) }
            .filter { !$0.contains("/") }
    }
}

struct MemorySecrets: SecretSource {
    var variables: [String: String] = [:]
    var files: [String: String] = [:]

    func environment(_ name: String) -> String? { variables[name] }

    func file(_ path: String) throws(UnusableInput) -> Secret {
        guard let text = files[path] else { throw UnusableInput("no such file") }
        return Secret(text)
    }

    func program(_ program: SecretProgram) throws(UnusableInput) -> Secret {
        throw UnusableInput("the program \(program.name) failed with status 1")
    }

    func systemdCredential(_ name: String) throws(UnusableInput) -> Secret {
        throw UnusableInput("CREDENTIALS_DIRECTORY is not set")
    }

    func certificates(_ path: String) throws(UnusableInput) -> String {
        guard let text = files[path] else { throw UnusableInput("\(path): no such file") }
        return text
    }

    func fits(_ tls: ClientTLS) -> Bool { true }

    func openPrivateKey(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER? {
        SampleKeys.open(pem, passphrase: passphrase)
    }
}
