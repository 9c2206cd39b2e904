import Foundation
import GatewayConfiguration
import GatewayCore
import GatewayFiles

/// Where `import` takes services from.
package enum ImportSource: Sendable {
    case netrc(String)
    /// - Parameter host: Such as `github.com`.
    case gitHub(host: String)
    /// The command line itself.
    case curl(String)
    case docker(String)
    case nginx(String)
    case envoy(String)
    /// - Parameter upstream: In the place of the server that the document names.
    case openAPI(String, upstream: String?)

    private static let maximumBytes = 4 << 20
    private static let programLimit: Duration = .seconds(10)

    /// As messages name it.
    var name: String {
        switch self {
        case .netrc(let path), .docker(let path), .nginx(let path), .envoy(let path), .openAPI(let path, _):
            LogText.clean(path)
        case .gitHub: "gh"
        case .curl: "the curl command"
        }
    }

    func read() throws(CommandFailure) -> ImportFindings {
        do throws(UnusableInput) {
            switch self {
            case .netrc(let path): return try NetrcFile.services(try Self.text(path))
            case .gitHub(let host): return try Self.gitHub(host)
            case .curl(let text): return try CurlLogin.services(text)
            case .docker(let path): return try DockerCredentials.services(try Self.bytes(path))
            case .nginx(let path): return try NginxConfiguration.services(try Self.text(path))
            case .envoy(let path): return try EnvoyConfiguration.services(try Self.document(path))
            case .openAPI(let path, let upstream):
                return try OpenAPIDocument.services(try Self.document(path), upstream: upstream)
            }
        } catch {
            throw CommandFailure(.failed, "\(name): \(error.message)")
        }
    }

    private static func bytes(_ path: String) throws(UnusableInput) -> [UInt8] {
        do throws(BoundedFile.Failure) {
            return try BoundedFile.read((path as NSString).expandingTildeInPath, limit: maximumBytes).bytes
        } catch {
            throw UnusableInput("\(error.message).")
        }
    }

    private static func text(_ path: String) throws(UnusableInput) -> String {
        guard let text = String(validating: try bytes(path), as: UTF8.self) else {
            throw UnusableInput("not valid UTF-8.")
        }
        return text
    }

    /// YAML, of which JSON is a part.
    private static func document(_ path: String) throws(UnusableInput) -> ConfigNode {
        var limits = YAMLLimits()
        limits.bytes = maximumBytes
        limits.nodes = 500_000
        let document = YAMLLoader(limits: limits).load(try bytes(path))
        guard let root = document.root else {
            let problem = document.diagnostics.first
            throw UnusableInput("line \(problem?.span.line ?? 1): \(problem?.message ?? "not valid YAML").")
        }
        return root
    }

    /// `gh` keeps the token. It is asked once, to see that there is one; what it prints is not looked at.
    private static func gitHub(_ host: String) throws(UnusableInput) -> ImportFindings {
        let isPublic = host == "github.com"
        let command = ["gh", "auth", "token"] + (isPublic ? [] : ["--hostname", host])
        guard ProgramSearch.path(of: "gh") != nil else { throw UnusableInput("The program gh is not in PATH.") }
        do throws(SpawnedProgram.Failure) {
            _ = try SpawnedProgram.output(
                of: command,
                environment: ProgramEnvironment.inherited(from: ProcessInfo.processInfo.environment),
                limit: 64 << 10,
                timeout: programLimit,
                isCancelled: { false }
            )
        } catch {
            let words = command.map(ShellWord.quoted).joined(separator: " ")
            throw UnusableInput("\(words) failed: \(error.message). Log in with: gh auth login")
        }
        let upstream = isPublic ? "https://api.github.com" : "https://\(host)/api/v3"
        return ImportFindings([ImportedService(upstream: upstream, login: .bearer(.program(command)), name: "github")])
    }
}
