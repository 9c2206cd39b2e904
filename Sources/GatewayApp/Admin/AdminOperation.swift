package import GatewayHTTP
package import GatewayProxy
import GatewayTokens
import Hummingbird

/// Something that operators can see or do in a running gateway, declared once in ``AdminAPI``.
///
/// The router, the role check, the rule for requests that cannot be recorded, and the client of the command line are made from it.
package struct AdminOperation<Control: Sendable, Input: AdminInput, Answer: Codable & Sendable>: Sendable {
    /// Gets the name of the credential or of the login that the path names.
    package typealias Perform = @Sendable (Control, _ name: String, Input) async -> Result<Answer, GatewayProblem>

    package let method: AdminMethod
    /// May have one parameter: the name of a credential (`:name`) or the identifier of a login (`:id`).
    package let path: String
    package let role: AdminRole
    /// Whether it may take a right away. It is then done even if it cannot be recorded.
    let withdraws: Bool
    /// Whether only a running gateway can do it. Otherwise, a command works on the files of a gateway that does not run.
    package let needsRunningGateway: Bool
    let body: AdminBody
    /// Whether an answer means that the gateway refused. It is then sent with status 409.
    let isConflict: (@Sendable (Answer) -> Bool)?
    /// nil for an operation without a button.
    let button: AdminButton?
    /// Found anew for each request; nil where this process does not offer the operation.
    private let control: @Sendable (AdminOptions) -> Control?
    /// Does it. A command calls this on the files of a gateway that does not run.
    package let perform: Perform

    /// - Parameter control: Finds what is asked.
    init(
        _ method: AdminMethod,
        _ path: String,
        _ role: AdminRole,
        asking control: @escaping @Sendable (AdminOptions) -> Control?,
        withdraws: Bool = false,
        needsRunningGateway: Bool = false,
        body: AdminBody = .ignored,
        isConflict: (@Sendable (Answer) -> Bool)? = nil,
        button: AdminButton? = nil,
        perform: @escaping Perform
    ) {
        self.method = method
        self.path = path
        self.role = role
        self.control = control
        self.withdraws = withdraws
        self.needsRunningGateway = needsRunningGateway
        self.body = body
        self.isConflict = isConflict
        self.button = button
        self.perform = perform
    }

    /// Whether it renews a token. It is not offered for a token that cannot be renewed.
    var renews: Bool { button?.use == .renewal }

    /// One sentence for the page and the help of the command; empty for an operation without a button.
    package var summary: String { button?.summary ?? "" }

    /// The last part of the path, such as `lock`.
    package var verb: String { path.split(separator: "/").last.map(String.init) ?? "" }

    /// Where it is for the credential with this name, or the login with this identifier.
    package func path(of name: String) -> String {
        path.split(separator: "/", omittingEmptySubsequences: false)
            .map { $0.first == ":" ? PercentEncoding.encode(name) : String($0) }
            .joined(separator: "/")
    }

    /// Whether a response with this status holds an answer rather than a problem.
    package func isAnswered(with status: Int) -> Bool { status == 200 || status == 409 && isConflict != nil }

}

extension AdminOperation where Input == NoInput {
    /// Answers a page of the admin listener.
    func answer(_ control: Control, of name: String = "") async throws(GatewayProblem) -> Answer {
        try await perform(control, name, NoInput()).get()
    }
}

/// What the list of operations needs of each, whatever it answers.
protocol ListedOperation {
    var endpoint: AdminEndpoint { get }
}

extension AdminOperation: ListedOperation {
    var endpoint: AdminEndpoint {
        AdminEndpoint(method, path, .role(role), withdraws: withdraws) { options, request, context in
            var name = context.parameters.get("id") ?? ""
            if path.contains(":name") {
                guard let decoded = context.parameters.get("name").flatMap(PercentEncoding.decode) else {
                    return AdminResponse.problem(
                        GatewayProblem(.requestRefused, "The credential's name cannot be read.")
                    )
                }
                name = decoded
            }
            let content = try await body.read(request)
            guard let control = control(options) else { return AdminResponse.noSuchPage }
            var input: Input
            do throws(GatewayProblem) {
                input = try Input(body: content)
                input.note(asker: context.asker)
                input.note(person: context.evidence.userName)
                await input.note { await context.user() }
            } catch {
                return AdminResponse.problem(error)
            }
            return switch await perform(control, name, input) {
            case .success(let answer): AdminResponse.json(answer, status: isConflict?(answer) == true ? .conflict : .ok)
            case .failure(let problem): AdminResponse.problem(problem)
            }
        }
    }
}

/// Carries out operations on the gateway.
///
/// ``OperatorControl`` calls the function that an operation was declared with. A test of the listener answers in its place, by the
/// operation's method and path. Requirements of single operations have no place here.
package protocol OperationRunner: Sendable {
    /// - Parameters:
    ///   - operation: Method and path, such as `POST /api/tokens/:name/lock`.
    ///   - name: The credential that the path names; empty if it names none.
    ///   - input: What was read from the body.
    func run<Input: Sendable, Answer: Sendable>(
        _ operation: String,
        on name: String,
        with input: Input,
        _ function: @Sendable (OperatorControl, String, Input) async -> Result<Answer, GatewayProblem>
    ) async -> Result<Answer, GatewayProblem>
}

extension AdminOperation where Control == any OperationRunner {
    /// An operation on the gateway that is told something in the body.
    init(
        _ method: AdminMethod,
        _ path: String,
        _ role: AdminRole,
        withdraws: Bool = false,
        needsRunningGateway: Bool = false,
        body: AdminBody,
        isConflict: (@Sendable (Answer) -> Bool)? = nil,
        button: AdminButton? = nil,
        perform: @escaping @Sendable (OperatorControl, _ name: String, Input) async -> Result<Answer, GatewayProblem>
    ) {
        self.init(
            method,
            path,
            role,
            asking: { $0.control },
            withdraws: withdraws,
            needsRunningGateway: needsRunningGateway,
            body: body,
            isConflict: isConflict,
            button: button
        ) { gateway, name, input in
            await gateway.run("\(method.rawValue) \(path)", on: name, with: input, perform)
        }
    }
}

extension AdminOperation where Control == any OperationRunner, Input == NoInput {
    /// An operation on the gateway that needs to be told at most the name of a credential.
    init(
        _ method: AdminMethod,
        _ path: String,
        _ role: AdminRole,
        withdraws: Bool = false,
        needsRunningGateway: Bool = false,
        isConflict: (@Sendable (Answer) -> Bool)? = nil,
        button: AdminButton? = nil,
        perform: @escaping @Sendable (OperatorControl, _ name: String) async -> Result<Answer, GatewayProblem>
    ) {
        self.init(
            method,
            path,
            role,
            withdraws: withdraws,
            needsRunningGateway: needsRunningGateway,
            body: .ignored,
            isConflict: isConflict,
            button: button
        ) { control, name, _ in
            await perform(control, name)
        }
    }
}

/// A button of the page, for an operation on one credential.
struct AdminButton: Sendable {
    enum Use: Sendable {
        /// Renews the token. A static credential has none, so it has no such button.
        case renewal
        /// Does something else with the token.
        case token
        case lock
        case unlock
    }

    let use: Use
    /// What the page and the help of the command say about it.
    let summary: String
}

package enum AdminMethod: String, Sendable {
    case get = "GET"
    case post = "POST"
    case delete = "DELETE"
}

/// What an operation does with the body of its request.
enum AdminBody: Sendable {
    /// It is not read.
    case ignored
    /// The operation gets it, or nil if it is larger, and answers that in its own words.
    case read(upTo: Int)
    /// A larger one is answered with status 413 before the operation is called.
    case refused(over: Int)

    var limit: Int? {
        switch self {
        case .ignored: nil
        case .read(let limit), .refused(let limit): limit
        }
    }

    fileprivate func read(_ request: Request) async throws -> [UInt8]? {
        switch self {
        case .ignored: nil
        case .read(let limit): (try? await request.body.collect(upTo: limit)).map { Array($0.readableBytesView) }
        case .refused(let limit): Array(try await request.body.collect(upTo: limit).readableBytesView)
        }
    }
}

/// What an operation is told in the body of its request. Whoever asks writes it, and the listener reads it, with one declaration.
package protocol AdminInput: Sendable {
    /// nil for a request without a body.
    var body: [UInt8]? { get }

    /// - Parameter body: nil if it is larger than the operation takes.
    init(body: [UInt8]?) throws(GatewayProblem)

    /// Tells an operation whose askers take turns who asks.
    mutating func note(asker: String)

    /// Tells an operation that only some users may ask for which of them asks.
    ///
    /// - Parameter name: nil for the admin token.
    mutating func note(person name: String?)

    /// Tells an operation that gives each user of this machine a share which of them asks.
    ///
    /// - Parameter user: Costs a look at all connections of the machine; nil where it is not known.
    mutating func note(user: () async -> UInt32?) async
}

extension AdminInput {
    package mutating func note(asker: String) {}
    package mutating func note(person name: String?) {}
    package mutating func note(user: () async -> UInt32?) async {}
}

/// The operation needs no more than its path.
package struct NoInput: AdminInput {
    package var body: [UInt8]? { nil }

    package init() {}
    package init(body: [UInt8]?) {}
}

/// An input in JSON.
package protocol AdminJSONInput: AdminInput {
    /// A whole body, for the message about one that cannot be read.
    static var example: String { get }

    var json: JSONValue { get }

    init(_ json: JSONValue) throws(GatewayProblem)
}

/// How a body in JSON is written and read.
extension AdminJSONInput {
    package var body: [UInt8]? { try? json.bytes() }

    package init(body: [UInt8]?) throws(GatewayProblem) {
        guard let json = body.flatMap({ JSONValue($0, uniqueNames: true) }) else { throw Self.malformed }
        try self.init(json)
    }

    package static var malformed: GatewayProblem {
        GatewayProblem(.requestRefused, "The body must be JSON, for example \(example).")
    }
}
