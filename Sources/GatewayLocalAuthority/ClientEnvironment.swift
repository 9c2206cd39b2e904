package import GatewayHTTP

/// The environment of a program that uses the gateway as its proxy and trusts the local authority.
///
/// Programs read different variables; each is set to what its readers want.
package struct ClientEnvironment: Sendable {
    package struct Variable: Hashable, Sendable {
        package let name: String
        package let value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// What a client proves itself with.
    package struct Proof: Sendable {
        package let client: String
        package let token: Secret

        package init(client: String, token: Secret) {
            self.client = client
            self.token = token
        }
    }

    /// The files of the local authority for clients.
    package struct Trust: Hashable, Sendable {
        /// The certificates that the machine trusts and those of the local authority.
        package let bundle: String
        /// The certificates of the local authority alone.
        package let own: String
        /// The bundle as a trust store of Java (PKCS#12).
        package let javaStore: String

        package init(bundle: String, own: String, javaStore: String) {
            self.bundle = bundle
            self.own = own
            self.javaStore = javaStore
        }
    }

    /// Each names the only certificates that its readers trust.
    package static let bundleNames = [
        "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",
        "PIP_CERT", "BUNDLE_SSL_CA_CERT", "NPM_CONFIG_CAFILE", "PERL_LWP_SSL_CA_FILE",
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "NIX_SSL_CERT_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    ]
    /// Each names certificates that its readers trust besides those that they bring along.
    package static let additionNames = ["NODE_EXTRA_CA_CERTS", "DENO_CERT"]

    package let variables: [Variable]

    /// - Parameters:
    ///   - proof: nil where the listener asks for none.
    ///   - trust: nil where no host is intercepted.
    ///   - hosts: Those that routes lead to.
    ///   - inherited: Looks up a variable of the present environment.
    package init(
        _ endpoint: ProxyEndpoint,
        proof: Proof?,
        trust: Trust?,
        hosts: [String],
        inherited: (String) -> String?
    ) {
        let user = proof.map { proof in
            proof.token.withValue { "\(PercentEncoding.encode(proof.client)):\(PercentEncoding.encode($0))" }
        }
        let url = endpoint.url(user: user)
        let exceptions = ProxyExceptions(routed: hosts, earlier: inherited("NO_PROXY") ?? inherited("no_proxy"))
        var found: [(String, String)] = []
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] { found += [(name, url), (name.lowercased(), url)] }
        found += [("NO_PROXY", exceptions.text), ("no_proxy", exceptions.text)]
        found += [
            ("NODE_USE_ENV_PROXY", "1"), ("PERL_LWP_ENV_PROXY", "1"), ("grpc_proxy", url), ("ws_proxy", url),
            ("wss_proxy", url),
        ]
        if let trust {
            found += Self.bundleNames.map { ($0, trust.bundle) }
            found += Self.additionNames.map { name in
                // What it named before is in the bundle.
                let isFree = Self.isFree(inherited(name), of: trust)
                return (name, isFree ? trust.own : trust.bundle)
            }
        }
        found.append(("JAVA_TOOL_OPTIONS", Self.java(endpoint, trust, exceptions, inherited("JAVA_TOOL_OPTIONS"))))
        variables = found.map { Variable(name: $0.0, value: $0.1) }
    }

    /// The files with certificates that the present environment names, each once. A program is to trust them as before.
    package static func earlierBundles(_ inherited: (String) -> String?) -> [String] {
        var paths: [String] = []
        for name in bundleNames + additionNames {
            guard let path = inherited(name), !path.isEmpty, !paths.contains(path) else { continue }
            paths.append(path)
        }
        return paths
    }

    private static func isFree(_ earlier: String?, of trust: Trust) -> Bool {
        guard let earlier, !earlier.isEmpty else { return true }
        return earlier == trust.own
    }

    /// Java reads none of the other variables. It prints this one, so no token is in it.
    private static func java(
        _ endpoint: ProxyEndpoint,
        _ trust: Trust?,
        _ exceptions: ProxyExceptions,
        _ earlier: String?
    ) -> String {
        let host = endpoint.origin.host
        var options = ["http", "https"].flatMap { ["-D\($0).proxyHost=\(host)", "-D\($0).proxyPort=\(endpoint.port)"] }
        options.append("-Dhttp.nonProxyHosts=\(exceptions.javaText)")
        if let trust {
            options += ["-Djavax.net.ssl.trustStore=\(trust.javaStore)", "-Djavax.net.ssl.trustStoreType=PKCS12"]
        }
        // What comes last counts; an option in quotation marks may have spaces.
        let text = options.map { $0.contains(" ") ? "\"\($0)\"" : $0 }.joined(separator: " ")
        guard let earlier, !earlier.isEmpty else { return text }
        return earlier.hasSuffix(text) ? earlier : "\(earlier) \(text)"
    }
}

/// How `authgateway env` writes variables.
package enum EnvironmentFormat: String, CaseIterable, Sendable {
    /// Lines for `eval` of a POSIX shell.
    case sh
    /// A `.env` file.
    case dotenv
    /// A file for `docker run --env-file`, which has no quotation marks.
    case docker
    /// One object.
    case json

    /// - Returns: nil for a value that the format cannot hold: docker's has no line breaks.
    package func text(_ variables: [ClientEnvironment.Variable]) -> String? {
        switch self {
        case .sh:
            return variables.map { "export \($0.name)=\(ShellWord.quoted($0.value))\n" }.joined()
        case .dotenv:
            return variables.map { "\($0.name)=\(Self.dotenv($0.value))\n" }.joined()
        case .docker:
            guard !variables.contains(where: { $0.value.unicodeScalars.contains { $0.value < 0x20 } }) else {
                return nil
            }
            return variables.map { "\($0.name)=\($0.value)\n" }.joined()
        case .json:
            let members = variables.map { "  \(JSONString.quoted($0.name)): \(JSONString.quoted($0.value))" }
            return "{\n" + members.joined(separator: ",\n") + "\n}\n"
        }
    }

    /// Readers of such files replace nothing within single quotation marks.
    private static func dotenv(_ value: String) -> String {
        guard value.contains("'") || value.contains("\n") else { return "'\(value)'" }
        var quoted = "\""
        for character in value {
            switch character {
            case "\\", "\"", "$", "`": quoted += "\\\(character)"
            case "\n": quoted += "\\n"
            default: quoted.append(character)
            }
        }
        return quoted + "\""
    }
}
