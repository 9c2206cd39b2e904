import ArgumentParser
import Foundation
import GatewayApp
import GatewayConfiguration
import GatewayFiles
import GatewayHTTP
import GatewayProxy

struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Import services from another program's configuration.",
        discussion: """
            Examples:
              authgateway import --netrc ~/.netrc --host api.example.com
              authgateway import --gh
              authgateway import --curl - < command.txt
              authgateway import --docker ~/.docker/config.json
              authgateway import --nginx /etc/nginx/nginx.conf
              authgateway import --envoy envoy.yaml
              authgateway import --openapi openapi.yaml --upstream https://api.example.com

            Adds a credential and a route for each service. Shows the difference without
            secrets, checks the result and asks before it writes.

            A secret in plain text is copied to a file with mode 0600 in the folder
            secrets of the state directory. The configuration names that file. The secret
            stays in its old place, too: remove it there when nothing else needs it. With
            --gh the gateway asks gh for the token. With --openapi it names variables to
            be set.

            With --curl - the command comes from standard input, where no other user and
            no history of a shell sees it. A variable in it ($TOKEN) is named, not read.
            Exit code 1 when there is nothing to import.
            """
    )

    @Option(help: ArgumentHelp("Take machine, login and password from this file.", valueName: "file"))
    var netrc: String?

    @Flag(help: "Ask gh (GitHub CLI) for the token, now and later.")
    var gh = false

    @Option(help: ArgumentHelp("Take URL and login from a curl command; - reads it.", valueName: "command"))
    var curl: String?

    @Option(help: ArgumentHelp("Take registries from docker's config.json.", valueName: "file"))
    var docker: String?

    @Option(help: ArgumentHelp("Take proxy_pass with proxy_set_header from this file.", valueName: "file"))
    var nginx: String?

    @Option(help: ArgumentHelp("Take credential_injector and its clusters from this file.", valueName: "file"))
    var envoy: String?

    @Option(help: ArgumentHelp("Take server and security scheme from this document.", valueName: "file"))
    var openapi: String?

    @Option(help: ArgumentHelp("Only this host; with --gh, GitHub's host (github.com).", valueName: "name"))
    var host: String?

    @Option(help: ArgumentHelp("With --openapi: instead of the document's server.", valueName: "url"))
    var upstream: String?

    @OptionGroup var yes: YesFlag
    @OptionGroup var config: ConfigOption

    private var sources: [ImportSource] {
        let all: [ImportSource?] = [
            netrc.map { .netrc($0) }, gh ? .gitHub(host: host ?? "github.com") : nil, curl.map { .curl($0) },
            docker.map { .docker($0) }, nginx.map { .nginx($0) }, envoy.map { .envoy($0) },
            openapi.map { .openAPI($0, upstream: upstream) },
        ]
        return all.compactMap(\.self)
    }

    func validate() throws {
        guard sources.count == 1 else {
            throw ValidationError("Give one of --netrc, --gh, --curl, --docker, --nginx, --envoy, --openapi.")
        }
        if upstream != nil, openapi == nil { throw ValidationError("--upstream can only be used with --openapi.") }
    }

    func run() async throws(CommandFailure) {
        guard var source = sources.first else { return }
        if case .curl(let text) = source { source = .curl(try ExplainInputText.read([text])) }
        let findings = try source.read()
        let notes = findings.notes.map { "note: \($0)\n" }.joined()
        let services = try narrowed(findings.services, of: source, notes)
        let editor = try ConfigurationEditor(config.path)
        var files = SecretFiles(stateDirectory: editor.stateDirectory, folder: editor.folder)
        let entries = ImportedEntries.make(services, taken: Self.taken(editor, files), folder: files.shownDirectory)
        for entry in entries { try editor.append(.init(entry.name, value: entry.credential), to: "credentials") }
        for entry in entries { try editor.append(.init(entry.name, value: entry.route), to: "routes") }
        Console.writeError(notes)
        for file in entries.compactMap(\.secretFile) { _ = try files.add(file.secret, as: file.name) }
        let written = try await EditOutcome(editor: editor, path: config.path).apply(
            isConfirmed: yes.isGiven,
            with: files
        )
        Console.write(written.text + entries.map { Self.owner(of: $0, from: source, in: files.directory) }.joined())
    }

    private func narrowed(
        _ services: [ImportedService],
        of source: ImportSource,
        _ notes: String
    ) throws(CommandFailure) -> [ImportedService] {
        guard !services.isEmpty else {
            throw CommandFailure(.failed, "\(source.name): nothing to import\n\(notes)")
        }
        // With --gh it is the host of GitHub.
        guard let host, !gh else { return services }
        let hosts = services.compactMap { try? RequestURL($0.upstream).host }
        let narrowed = services.filter { (try? RequestURL($0.upstream).host) == host.lowercased() }
        guard !narrowed.isEmpty else {
            let found = hosts.prefix(20).map(LogText.clean).joined(separator: ", ")
            throw CommandFailure(.failed, "\(source.name): nothing for \(LogText.clean(host)); there are \(found)")
        }
        return narrowed
    }

    private static func taken(_ editor: ConfigurationEditor, _ files: SecretFiles) -> Set<String> {
        Set(["credentials", "routes"].flatMap { editor.root.entries(of: $0).map(\.key) } + files.names)
    }

    /// Who keeps the secret from now on.
    private static func owner(of entry: ImportedEntries, from source: ImportSource, in folder: String) -> String {
        let words: String
        switch entry.secret {
        case .clear:
            words =
                "its secret was copied to \(folder)/\(entry.name) (mode 0600), and the gateway uses that copy. "
                + "The one in \(source.name) is still there; a change there changes nothing here."
        case .environment: words = "set \(entry.variables.joined(separator: ", ")) where the gateway is started."
        case .file(let path): words = "the gateway reads its secret from \(LogText.clean(path)), where it is."
        case .program(let command):
            let program = command.map(ShellWord.quoted).joined(separator: " ")
            words = "its secret stays where it is; the gateway asks for it with: \(program)"
        }
        return "\(entry.name): \(words)\n"
    }
}

/// Where `import` takes services from.
private enum ImportSource {
    case netrc(String)
    /// - Parameter host: Such as `github.com`.
    case gitHub(host: String)
    /// The command line itself.
    case curl(String)
    case docker(String)
    case nginx(String)
    case envoy(String)
    /// - Parameter upstream: Instead of the server that the document names.
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
