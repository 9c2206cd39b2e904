/// What is known of programs that do not send their requests through the proxy of the environment.
struct ProxyAdvice {
    /// The version of Node.js.
    struct NodeVersion: Hashable, CustomStringConvertible {
        let major: Int
        let minor: Int
        let description: String

        /// - Parameter text: What `node --version` prints: `v22.21.0`.
        init?(_ text: String) {
            let words = text.split(whereSeparator: \.isWhitespace)
            guard words.count == 1, words[0].hasPrefix("v"), words[0].utf8.count < 64 else { return nil }
            description = String(words[0].dropFirst())
            guard description.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || ".-+".contains($0)) }) else {
                return nil
            }
            let numbers = description.split(separator: ".", omittingEmptySubsequences: false)
            guard numbers.count >= 3, let major = Int(numbers[0]), let minor = Int(numbers[1]) else { return nil }
            (self.major, self.minor) = (major, minor)
        }
    }

    private static let nodePrograms: Set = ["node", "nodejs"]
    /// They run with Node.js, and read the variables themselves.
    private static let nodePackageManagers: Set = ["npm", "yarn", "pnpm", "corepack"]
    private static let javaPrograms: Set = [
        "java", "jshell", "mvn", "gradle", "gradlew", "sbt", "scala", "kotlin", "clojure", "clj", "lein", "groovy",
    ]
    /// They start a program without the variables of their own environment.
    private static let otherUsers: Set = ["sudo", "doas", "pkexec"]
    private static let containers: Set = ["docker", "podman", "nerdctl"]
    private static let withoutProxy: Set = [
        "ssh", "scp", "sftp", "rsync", "telnet", "nc", "netcat", "ncat", "socat", "ping", "dig", "psql", "mysql",
        "mariadb", "redis-cli", "mongosh", "erl", "elixir", "iex",
    ]

    /// What gh runs git for. It puts its own credential helper in place of every other one then (`AuthenticatedCommand` in git/client.go of
    /// cli/cli), and that hands out `GH_TOKEN`.
    private static let gitCommandsOfGH: [String: Set<String>] = [
        "repo": ["clone", "create", "fork", "sync"], "pr": ["checkout", "create"], "gist": ["clone"],
        "extension": ["install", "upgrade"],
    ]

    /// The last part of the program's path.
    let name: String
    /// The program and its arguments.
    let command: [String]
    /// The program that runs it, where it is a script; see ``interpreter(in:)``.
    var interpreter: String?

    init(command: [String], interpreter: String? = nil) {
        self.command = command
        self.interpreter = interpreter
        name = Self.name(command.first ?? "")
    }

    /// The Node.js to ask for its version; nil where the answer makes no difference.
    var node: String? {
        if Self.nodePrograms.contains(name) { return command.first }
        guard let interpreter, Self.nodePrograms.contains(Self.name(interpreter)) else { return nil }
        return Self.nodePackageManagers.contains(name) ? nil : interpreter
    }

    /// - Parameters:
    ///   - version: That of ``node``, if it said one.
    ///   - hasToken: Whether the program has to prove to the proxy who it is.
    /// - Returns: What to tell the person who starts it; nil where the program uses the proxy, or nobody knows.
    func warning(node version: NodeVersion?, hasToken: Bool) -> String? {
        if node != nil { return version.flatMap(warning) }
        if Self.javaPrograms.contains(name), hasToken {
            return "\(name) gets the proxy, but not the token of the client, because Java prints JAVA_TOOL_OPTIONS; "
                + "the program has to answer 407 itself, with an Authenticator"
        }
        if Self.otherUsers.contains(name), !keepsEnvironment {
            let remedy = name == "sudo" ? "use sudo -E" : "let \(name) start authgateway exec"
            return
                "\(name) removes the variables that name the proxy, so requests do not go through the gateway; \(remedy)"
        }
        if Self.containers.contains(name) {
            return "a container does not get the variables that name the proxy; give it the file that this prints:\n"
                + "  authgateway env --format docker"
        }
        if Self.withoutProxy.contains(name) {
            return "\(name) does not use HTTPS_PROXY, so its connections do not go through the gateway"
        }
        return nil
    }

    /// - Parameter hosts: ``ToolVariables/gitHosts``
    func gitWarning(for hosts: [String]) -> String? {
        guard name == "gh", let host = hosts.first, command.count > 2,
            Self.gitCommandsOfGH[command[1]]?.contains(command[2]) ?? false
        else { return nil }
        return
            "gh gives git the token of this run for \(host), where it is worth nothing, so private repositories cannot be read; "
            + "add a route with a credential to https://\(host), or use git itself, which still asks your own credential helpers"
    }

    /// Node.js reads the variables since 22.21 and 24.5. From 24.0 on, `fetch` alone did.
    private func warning(of version: NodeVersion) -> String? {
        switch (version.major, version.minor) {
        case (22, 21...), (24, 5...), (25..., _): nil
        case (24, _):
            "Node.js \(version) uses the proxy for fetch only, so requests of http and https do not go through the "
                + "gateway; use Node.js 24.5 or later"
        default:
            "Node.js \(version) ignores HTTPS_PROXY, so requests do not go through the gateway; use Node.js 24.5 or later, "
                + "or 22.21 or later of version 22"
        }
    }

    /// Among the options of `sudo`, which stand before the program that it starts.
    private var keepsEnvironment: Bool {
        guard name == "sudo" else { return false }
        var words = command.dropFirst()
        while let word = words.popFirst(), word.hasPrefix("-"), word != "--" {
            if word.hasPrefix("--") {
                if word.hasPrefix("--preserve-env") { return true }
                continue
            }
            if word.contains("E") { return true }
            // Such as `-u root`.
            if let last = word.last, "CDghpRrTtUu".contains(last) { words = words.dropFirst() }
        }
        return false
    }

    /// What the first line of a script names: `node` for `#!/usr/bin/env node`.
    ///
    /// - Parameter start: The first bytes of the file.
    static func interpreter(in start: [UInt8]) -> String? {
        guard start.starts(with: "#!".utf8) else { return nil }
        let line = start.dropFirst(2).prefix { $0 != UInt8(ascii: "\n") }
        let words = String(decoding: line, as: UTF8.self).split(whereSeparator: \.isWhitespace).map(String.init)
        guard let program = words.first else { return nil }
        guard name(program) == "env" else { return program }
        return words.dropFirst().first { !$0.hasPrefix("-") && !$0.contains("=") }
    }

    private static func name(_ path: String) -> String {
        path.split(separator: "/").last.map(String.init) ?? path
    }
}
