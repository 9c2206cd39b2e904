import ArgumentParser

struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Take services over from another program's configuration.",
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

            A secret in clear is copied to a file with mode 0600 in the folder secrets of
            the state directory. The configuration names that file. The secret stays in
            its old place, too: remove it there when nothing else needs it. With --gh the
            gateway asks gh for the token. With --openapi it names variables to be set.

            With --curl - the command comes from standard input, where no other user and
            no history of a shell sees it. A variable in it ($TOKEN) is named, not read.
            Exit code 1 when there is nothing to import.
            """
    )

    @Option(help: ArgumentHelp("Take machine, login and password from this file.", valueName: "file"))
    var netrc: String?

    @Flag(help: "Ask gh (GitHub CLI) for the token, and go on asking it.")
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

    @Option(help: ArgumentHelp("With --openapi: in the place of the document's server.", valueName: "url"))
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
        if upstream != nil, openapi == nil { throw ValidationError("--upstream is for --openapi.") }
    }

    func run() async throws {
        guard var source = sources.first else { return }
        if case .curl(let text) = source { source = .curl(try ExplainInputText.read([text])) }
        let operation = ImportOperation(configuration: config.path, source: source, host: gh ? nil : host)
        Console.write(try await operation.run(isConfirmed: yes.isGiven))
    }
}
