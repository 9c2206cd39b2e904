package import GatewayCore
import HTTPTypes
import Hummingbird

/// Something that operators can see or do in a running gateway, declared once in ``AdminAPI``.
///
/// The router, the role check, the rule for requests that cannot be recorded, and the client of the command line are made from it.
package struct AdminOperation<Answer: Codable & Sendable>: Sendable {
    package typealias Perform = @Sendable (any GatewayControl, AdminCall) async -> Result<Answer, GatewayProblem>

    package let method: AdminMethod
    /// May have one parameter, the name of a credential: `:name`.
    package let path: String
    package let role: AdminRole
    /// Whether it may take a right away. It is then done even if it cannot be recorded.
    package let withdraws: Bool
    /// The size of the largest request body; nil if none is read.
    let bodyLimit: Int?
    /// Whether an answer means that the gateway refused. It is then sent with status 409.
    let isConflict: (@Sendable (Answer) -> Bool)?
    /// Does it. A command calls this on the files of a gateway that does not run.
    package let perform: Perform

    init(
        _ method: AdminMethod,
        _ path: String,
        _ role: AdminRole,
        withdraws: Bool = false,
        bodyLimit: Int? = nil,
        isConflict: (@Sendable (Answer) -> Bool)? = nil,
        perform: @escaping Perform
    ) {
        self.method = method
        self.path = path
        self.role = role
        self.withdraws = withdraws
        self.bodyLimit = bodyLimit
        self.isConflict = isConflict
        self.perform = perform
    }

    /// The last part of the path, such as `lock`.
    package var verb: String { path.split(separator: "/").last.map(String.init) ?? "" }

    /// Where it is for the credential with this name.
    package func path(of name: String) -> String { path.replacing(":name", with: PercentEncoding.encode(name)) }

    /// Whether a response with this status holds an answer rather than a problem.
    package func isAnswered(with status: Int) -> Bool { status == 200 || status == 409 && isConflict != nil }

    var endpoint: AdminEndpoint {
        AdminEndpoint(method: method, path: path, role: role, withdraws: withdraws, bodyLimit: bodyLimit) {
            switch await perform($0, $1) {
            case .success(let answer):
                AdminResponse.json(answer, status: isConflict?(answer) == true ? .conflict : .ok)
            case .failure(let problem): AdminResponse.problem(problem)
            }
        }
    }
}

package enum AdminMethod: String, Sendable {
    case get = "GET"
    case post = "POST"
}

/// What an operation is asked with.
package struct AdminCall: Sendable {
    /// The credential that the path names.
    package let name: String
    /// nil if it is larger than the operation takes.
    package let body: [UInt8]?

    package init(name: String = "", body: [UInt8]? = nil) {
        self.name = name
        self.body = body
    }

    var json: JSONValue? { body.flatMap { JSONValue($0) } }
}

/// An operation with the type of its answer erased, for the router and the role check.
struct AdminEndpoint: Sendable {
    let method: AdminMethod
    let path: String
    let role: AdminRole
    let withdraws: Bool
    let bodyLimit: Int?
    let respond: @Sendable (any GatewayControl, AdminCall) async -> Response

    func route(on router: Router<AdminContext>, _ options: AdminOptions) {
        let method: HTTPRequest.Method = self.method == .get ? .get : .post
        router.on(RouterPath(path), method: method) { request, context in
            await respond(to: request, context, options)
        }
    }

    private func respond(to request: Request, _ context: AdminContext, _ options: AdminOptions) async -> Response {
        var name = ""
        if path.contains(":name") {
            guard let decoded = context.parameters.get("name").flatMap(PercentEncoding.decode) else {
                return AdminResponse.problem(
                    GatewayProblem(.requestRefused, "The credential's name cannot be read.")
                )
            }
            name = decoded
        }
        var body: [UInt8]?
        if let bodyLimit {
            body = (try? await request.body.collect(upTo: bodyLimit)).map { Array($0.readableBytesView) }
        }
        return await respond(options.control, AdminCall(name: name, body: body))
    }
}
