import AsyncHTTPClient
import Foundation
import GatewayApp
import GatewayFiles
import GatewayHTTP
import GatewayProxy
import GatewayTokenClient
import NIOCore
import NIOHTTP1
import NIOSSL
import Synchronization

/// What the admin listener is asked, as its operation declares it.
struct AdminQuestion: Equatable {
    let method: String
    let path: String
    let body: [UInt8]?
    /// Whether the token goes with the first try, or only if it is asked for.
    let needsToken: Bool

    init<Control, Input, Answer>(
        _ operation: AdminOperation<Control, Input, Answer>,
        of name: String = "",
        with input: Input
    ) {
        method = operation.method.rawValue
        path = operation.path(of: name)
        body = input.body
        needsToken = operation.role == .operator
    }
}

/// Speaks to the admin listener of the gateway that runs with a configuration, or of one that `--admin` names.
struct AdminClient: Sendable {
    /// More than all requests that may be held, with all of their text escaped.
    private static let answerLimit = 16 << 20

    /// By the name that the gateway's certificate must have; empty without TLS. They live as long as the command.
    private static let clients = Mutex<[String: HTTPClient]>([:])

    private static func client(expecting name: String?) -> HTTPClient {
        clients.withLock { clients in
            if let client = clients[name ?? ""] { return client }
            var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
            configuration.proxy = nil
            configuration.timeout.connect = .seconds(5)
            // A gateway that is not there is to be reported, not waited for.
            configuration.connectionPool.retryConnectionEstablishment = false
            if let name { require(PeerName(name), in: &configuration) }
            let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
            clients[name ?? ""] = client
            return client
        }
    }

    /// Closes a connection before the operator's token is sent if the certificate does not have the name.
    private static func require(_ name: PeerName, in configuration: inout HTTPClient.Configuration) {
        configuration.httpVersion = .http1Only
        configuration.http1_1ConnectionDebugInitializer = { channel in
            channel.eventLoop.submit {
                do {
                    let tls = try channel.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self)
                    guard let certificate = tls.peerCertificate else { throw ForeignCertificate() }
                    try name.check(certificate)
                } catch {
                    channel.close(promise: nil)
                    throw error
                }
            }
        }
    }

    private let address: ListenerPlan.Address
    private let stateDirectory: String
    private let isOwnAddress: Bool
    /// What `--admin` says; nil for the gateway of a configuration.
    private let named: NamedAdmin?
    /// Whether its address was typed, so that it may belong to another machine.
    var isNamed: Bool { named != nil }
    /// What a person typed, in place of the admin token of the state directory.
    private var typed: Secret?

    /// - Parameter isOwnAddress: Whether the address comes from the configuration, or from a record that this user wrote. Otherwise
    ///   the token goes to a socket of the state directory or nowhere.
    init(_ admin: AdminPlan, stateDirectory: String, isOwnAddress: Bool = true) {
        address = admin.address
        self.stateDirectory = stateDirectory
        self.isOwnAddress = isOwnAddress
        named = nil
    }

    init(_ named: NamedAdmin) {
        address = named.address
        stateDirectory = ""
        isOwnAddress = true
        self.named = named
    }

    /// Whether it goes with a token or a certificate that may be a user's, and not with the admin token of the state directory.
    var mayProveUser: Bool {
        typed != nil || named?.token != nil || named?.tls?.certificateChain.isEmpty == false
    }

    /// Whether nothing is known that proves who asks.
    var lacksToken: Bool { !mayProveUser && (named != nil || AdminToken.read(in: stateDirectory) == nil) }

    /// The same gateway, asked with a token that a person has typed.
    func typing(_ token: Secret) -> AdminClient {
        var client = self
        client.typed = token
        return client
    }

    /// Whether the gateway that is meant can be the one that answers. An address that was typed is taken on trust; TLS proves it.
    private var isHeld: Bool { named != nil || StateDirectory.isHeld(stateDirectory) }

    func ask<Control, Answer>(
        _ operation: AdminOperation<Control, NoInput, Answer>,
        of name: String = ""
    ) async throws(CommandFailure) -> Answer {
        try await ask(operation, of: name, with: NoInput())
    }

    /// Asks for an operation. What only shows something is asked for without the token at first, since it may not be needed.
    ///
    /// - Parameter name: The credential or the login that the operation's path names.
    func ask<Control, Input, Answer>(
        _ operation: AdminOperation<Control, Input, Answer>,
        of name: String = "",
        with input: Input
    ) async throws(CommandFailure) -> Answer {
        let question = AdminQuestion(operation, of: name, with: input)
        guard !question.needsToken else {
            let (status, answer) = try await sendAuthorized(question.method, question.path, body: question.body)
            guard operation.isAnswered(with: status) else { throw refusal(answer) }
            return try decode(answer)
        }
        let (status, answer) = try await look(question.method, question.path, body: question.body)
        guard operation.isAnswered(with: status) else {
            let refusal = refusal(answer)
            throw refusal.status == .failed && !isHeld ? foreign(.unreachable) : refusal
        }
        return try own(answer)
    }

    /// Needs no token, so that any user may ask.
    func requireLife() async throws(CommandFailure) {
        guard try await send("GET", "/healthz", token: nil).status == 200 else { throw notOurs }
    }

    func readiness() async throws(CommandFailure) -> Readiness {
        let operation = AdminAPI.readiness
        let (status, body) = try await look(operation.method.rawValue, "\(operation.path)?verbose")
        guard status == 200 || status == 503 else { throw refusal(body) }
        return try own(body)
    }

    /// The certificates of the local CA (PEM); nil where the gateway has none.
    func authority() async throws(CommandFailure) -> String? {
        let (status, body) = try await look("GET", "/ca.pem")
        if status == 200 { return String(buffer: body) }
        let refusal = refusal(body)
        guard status == 404, refusal.status == .failed else { throw refusal }
        return nil
    }

    /// Asks the gateway, and works on its files where none runs.
    ///
    /// - Parameter offline: Gets the reason why the gateway could not be asked.
    func reach<Value: Sendable>(
        _ ask: () async throws(CommandFailure) -> Value,
        orOffline offline: (CommandFailure) async throws(CommandFailure) -> Value
    ) async throws(CommandFailure) -> Value {
        do throws(CommandFailure) {
            return try await ask()
        } catch {
            // An address that was typed says nothing of the gateway's files.
            guard error.status == .unreachable, named == nil, !isAnswered(error) else { throw error }
            return try await offline(error)
        }
    }

    /// Whether something did answer at the admin address.
    private func isAnswered(_ failure: CommandFailure) -> Bool {
        [notOurs.description, foreign(.unreachable).description].contains(failure.description)
    }

    /// With the admin token of the state directory.
    func sendAuthorized(
        _ method: String,
        _ path: String,
        body: [UInt8]? = nil
    ) async throws(CommandFailure) -> (status: Int, body: ByteBuffer) {
        if let named { return try await send(method, path, as: named, body: body) }
        try requireTrustedOwner()
        // While no gateway runs, another program may listen there. It is asked what it is, and gets no secret.
        let isHeld = StateDirectory.isHeld(stateDirectory)
        let token = isHeld ? typed ?? AdminToken.read(in: stateDirectory) : nil
        let answer = try await send(method, path, token: token, body: token == nil ? nil : body)
        guard answer.status == 401 else { return answer }
        guard isHeld else { throw foreign(.failed) }
        guard typed == nil else { throw Self.unknownToken(place) }
        let file = AdminToken.path(in: stateDirectory)
        let reason = token == nil ? "cannot be read" : "is not the one of the running gateway"
        throw CommandFailure(.failed, "\(file) \(reason); run this as the gateway's user, with its configuration")
    }

    private func send(
        _ method: String,
        _ path: String,
        as named: NamedAdmin,
        body: [UInt8]?
    ) async throws(CommandFailure) -> (status: Int, body: ByteBuffer) {
        let answer = try await send(method, path, token: typed ?? named.token, body: body)
        guard answer.status == 401 else { return answer }
        guard typed == nil else { throw Self.unknownToken(place) }
        let options = (named.isTyped ? "" : "--admin \(ShellWord.quoted(place)) ") + "--admin-token-file FILE"
        let advice =
            named.token == nil
            ? "name a file with the token of a user, or admin.token of the state directory: \(options)"
            : "the token is not that of a user of listeners.admin.users, nor the gateway's own admin token"
        throw CommandFailure(.failed, "\(place) did not recognize the credentials; \(advice)")
    }

    private static func unknownToken(_ place: String) -> CommandFailure {
        CommandFailure(.failed, "\(place) does not know this token as that of a user of listeners.admin.users")
    }

    /// The listener at this address learns the token, so it must belong to a user who can read the token anyway.
    ///
    /// If another user recorded the address, only a socket in the state directory is trusted. Anybody can listen at a port, and elsewhere that
    /// user could replace the socket meanwhile.
    private func requireTrustedOwner() throws(CommandFailure) {
        guard isOwnAddress || isInStateDirectory else {
            throw CommandFailure(
                .failed,
                "another user recorded \(place) as the address of the gateway, so the admin token is not sent there; "
                    + "correct the configuration, or run this as the gateway's user"
            )
        }
        guard case .unix(let path, _) = address, let owner = FileStatus.owner(of: path) else { return }
        let trusted = [geteuid(), 0, FileStatus.owner(of: AdminToken.path(in: stateDirectory))]
        guard !trusted.contains(owner) else { return }
        throw CommandFailure(
            .failed,
            "\(place) belongs to another user (\(owner)), who is not sent the admin token; check who made it, and run "
                + "this as the gateway's user"
        )
    }

    private var isInStateDirectory: Bool {
        guard case .unix(let path, _) = address else { return false }
        return path.hasPrefix(stateDirectory + "/") && !path.contains("/../")
    }

    /// Each gateway has the same admin address unless its configuration names another. While no gateway holds the state
    /// directory, the answer is that of another one.
    private func own<Value: Decodable>(_ body: ByteBuffer) throws(CommandFailure) -> Value {
        let value: Value = try decode(body)
        guard isHeld else { throw foreign(.unreachable) }
        return value
    }

    /// The token is sent only where it is asked for (`listeners.admin.require_token`).
    private func look(
        _ method: String,
        _ path: String,
        body: [UInt8]? = nil
    ) async throws(CommandFailure) -> (status: Int, body: ByteBuffer) {
        if named != nil { return try await sendAuthorized(method, path, body: body) }
        // Another program may listen there, and gets no more than the question.
        let answer = try await send(method, path, token: nil, body: isHeld ? body : nil)
        return answer.status == 401 ? try await sendAuthorized(method, path, body: body) : answer
    }

    private func send(
        _ method: String,
        _ path: String,
        token: Secret?,
        body: [UInt8]? = nil
    ) async throws(CommandFailure) -> (status: Int, body: ByteBuffer) {
        var request = HTTPClientRequest(url: base + path)
        request.method = .RAW(value: method)
        // A socket has no name of its own (RFC 9112 §3.2).
        if case .unix = address { request.headers.add(name: "Host", value: "localhost") }
        var expected: String?
        if let tls = named?.tls {
            request.tlsConfiguration = tls
            if case .tcp(let host, _) = address { expected = host }
        }
        let client = Self.client(expecting: expected)
        if let token { request.headers.add(name: "Authorization", value: token.withValue { "Bearer \($0)" }) }
        if let body { request.body = .bytes(body) }
        do {
            // A renewal may take as long as an authority takes to answer. What only looks is answered from memory.
            let limit = method == "GET" ? Self.readLimit : .seconds(60)
            let end = ContinuousClock.now + .nanoseconds(limit.nanoseconds)
            let response = try await client.execute(request, timeout: limit)
            // The time limit above ends with the head of the answer.
            let content = await Deadline.value(within: max(.zero, end - .now)) { () -> Result<ByteBuffer, any Error> in
                do {
                    return .success(try await response.body.collect(upTo: Self.answerLimit))
                } catch {
                    return .failure(error)
                }
            }
            guard let content else { throw HTTPClientError.deadlineExceeded }
            return (Int(response.status.code), try content.get())
        } catch {
            if let error = error as? IOError, error.errnoCode == EACCES {
                throw CommandFailure(.failed, "\(place) is not for this user; run this as the gateway's user")
            }
            if error is HTTPParserError || error is NIOTooManyBytesError { throw notOurs }
            if error as? HTTPClientError == .deadlineExceeded, StateDirectory.isHeld(stateDirectory) {
                throw CommandFailure(.unreachable, slow(method, path))
            }
            if let error = error as? HTTPClientError, [.deadlineExceeded, .remoteConnectionClosed].contains(error) {
                let advice = "if it is not the gateway, give listeners.admin another address"
                throw CommandFailure(.unreachable, "what listens at \(place) does not answer; \(advice)")
            }
            if named?.tls != nil {
                let reason = "cannot be reached, or its certificate is not trusted (AUTHGATEWAY_ADMIN_CA)"
                throw CommandFailure(.unreachable, "\(place) \(reason)")
            }
            let advice = "is the gateway running? Start it with: authgateway run"
            throw CommandFailure(.unreachable, "no gateway answers at \(place); \(advice)")
        }
    }

    private static let readLimit = TimeAmount.seconds(5)

    /// What is said of a gateway that runs, at the right address, and is slow.
    private func slow(_ method: String, _ path: String) -> String {
        let process = StateDirectory.holder(of: stateDirectory).map { " (process \($0))" } ?? ""
        let resource = path.prefix { $0 != "?" }
        return "the gateway\(process) that uses \(stateDirectory) runs and does not answer: \(method) \(resource) at "
            + "\(place) took too long. The process may be halted, or the machine too busy; its log says more"
    }

    private var base: String {
        switch address {
        case .tcp: place
        case .unix(let path, _): "http+unix://\(PercentEncoding.encode(path))"
        }
    }

    /// The address as people read it.
    private var place: String { BoundListener(address: address, port: nil, isTLS: named?.tls != nil).boundText }

    func decode<Value: Decodable>(_ body: ByteBuffer) throws(CommandFailure) -> Value {
        do {
            let decoder = JSONDecoder()
            decoder.keyDecodingStrategy = .convertFromSnakeCase
            return try decoder.decode(Value.self, from: Data(body.readableBytesView))
        } catch {
            throw notOurs
        }
    }

    /// No gateway runs with this configuration.
    private func foreign(_ status: ExitStatus) -> CommandFailure {
        let advice = "run this with the configuration of the gateway that does"
        return CommandFailure(status, "what answers at \(place) does not use \(stateDirectory); \(advice)")
    }

    private var notOurs: CommandFailure {
        CommandFailure(.unreachable, "what answers at \(place) is not an authgateway of this version")
    }

    /// What a gateway in this process says, as if it had been asked over the wire.
    static func value<Value>(of result: Result<Value, GatewayProblem>) throws(CommandFailure) -> Value {
        switch result {
        case .success(let value): return value
        case .failure(let problem): throw refusal(problem.detail, command: problem.command)
        }
    }

    private static func refusal(_ detail: String, command: String?) -> CommandFailure {
        let isRepeated = command.map { isUnderWay($0, as: CommandLine.arguments) } ?? false
        let command = isRepeated ? "" : command.map { "\nrun: \(LogText.clean($0))" } ?? ""
        return CommandFailure(.failed, LogText.clean(detail) + command)
    }

    /// Whether the advice is the command that has just failed.
    static func isUnderWay(_ command: String, as arguments: [String]) -> Bool {
        var left = arguments.dropFirst()
        return command.split(separator: " ").dropFirst().allSatisfy { word in
            guard let index = left.firstIndex(where: { $0 == word }) else { return false }
            left = left[(index + 1)...]
            return true
        }
    }

    /// A problem document as text. A response without one does not come from a gateway.
    func refusal(_ body: ByteBuffer) -> CommandFailure {
        let problem = JSONValue(Array(body.readableBytesView))
        guard let detail = problem?["detail"]?.string else { return notOurs }
        return Self.refusal(detail, command: problem?["command"]?.string)
    }
}
