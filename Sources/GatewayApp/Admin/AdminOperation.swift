package import GatewayHTTP
package import GatewayProxy
import GatewayTokens
import Hummingbird

/// Something that operators can see or do in a running gateway, declared once in ``AdminAPI``.
///
/// The router, the role check, the rule for requests that cannot be recorded, and the client of the command line are made from it.
package struct AdminOperation<Control: Sendable, Answer: Codable & Sendable>: Sendable {
    package typealias Perform = @Sendable (Control, AdminCall) async -> Result<Answer, GatewayProblem>

    package let method: AdminMethod
    /// May have one parameter: the name of a credential (`:name`) or the identifier of a login (`:id`).
    package let path: String
    package let role: AdminRole
    /// Whether it may take a right away. It is then done even if it cannot be recorded.
    let withdraws: Bool
    let body: AdminBody
    /// Whether an answer means that the gateway refused. It is then sent with status 409.
    let isConflict: (@Sendable (Answer) -> Bool)?
    /// What a button of the page says about it; empty for an operation without a button.
    let summary: String
    /// Does it. A command calls this on the files of a gateway that does not run.
    package let perform: Perform

    init(
        _ method: AdminMethod,
        _ path: String,
        _ role: AdminRole,
        withdraws: Bool = false,
        body: AdminBody = .ignored,
        isConflict: (@Sendable (Answer) -> Bool)? = nil,
        summary: String = "",
        perform: @escaping Perform
    ) {
        self.method = method
        self.path = path
        self.role = role
        self.withdraws = withdraws
        self.body = body
        self.isConflict = isConflict
        self.summary = summary
        self.perform = perform
    }

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

    /// - Parameter control: What is asked, found anew for each request; nil where this process does not offer it.
    private func endpoint(asking control: @escaping @Sendable (AdminOptions) -> Control?) -> AdminEndpoint {
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
            let call = AdminCall(name: name, body: try await body.read(request))
            guard let control = control(options) else { return AdminResponse.noSuchPage }
            return switch await perform(control, call) {
            case .success(let answer): AdminResponse.json(answer, status: isConflict?(answer) == true ? .conflict : .ok)
            case .failure(let problem): AdminResponse.problem(problem)
            }
        }
    }
}

extension AdminOperation where Control == any GatewayControl {
    var endpoint: AdminEndpoint { endpoint { $0.control } }
}

extension AdminOperation where Control == any LoginControl {
    var endpoint: AdminEndpoint { endpoint { $0.logins } }
}

extension AdminOperation where Control == any ExplanationControl {
    var endpoint: AdminEndpoint { endpoint { $0.explanations } }
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

/// What an operation is asked with.
package struct AdminCall: Sendable {
    /// The credential or the login that the path names.
    package let name: String
    /// nil if it is larger than the operation takes.
    package let body: [UInt8]?

    package init(name: String = "", body: [UInt8]? = nil) {
        self.name = name
        self.body = body
    }

    var json: JSONValue? { body.flatMap { JSONValue($0) } }
}
