import GatewayHTTP
import GatewayProxy
import GatewayTokens
import HTTPTypes
import Hummingbird

/// `POST /tokens/NAME`: a token for a client of the gateway, in the form of RFC 6749 §5.1.
///
/// Clients prove themselves as on the data plane; the admin token is no client's.
enum AdminVending {
    static let endpoint = AdminEndpoint(.post, "/tokens/:name") { options, request, context in
        guard let vending = options.vending else { return AdminResponse.noSuchPage }
        let tokens = [HTTPField.Name.authorization, .proxyAuthorization].flatMap { request.headers[values: $0] }
            .map { value in
                let bytes = Array(value.utf8)
                return ClientTokenParser.read(bytes.span, bytes.indices)
            }
        guard !tokens.contains(where: { options.token.matches($0) }) else {
            let detail = "The admin token is for operators; send a client token (access.clients)."
            return refusal(GatewayProblem(.clientAuthRequired, detail, cause: .init(code: "invalid_token")))
        }
        // What cannot be read is no credential's name, and is not told before the client is known.
        let name = context.parameters.get("name").flatMap(PercentEncoding.decode) ?? ""
        let headers = request.headers
        let answer = await vending.vend(name, presenting: tokens) { field in
            HTTPField.Name(field).map { headers[values: $0] } ?? []
        }
        switch answer {
        case .success(let token):
            var response = AdminResponse.json(VendedBody(token))
            response.headers[.pragma] = "no-cache"
            return response
        case .failure(let problem): return refusal(problem)
        }
    }

    private static func refusal(_ problem: GatewayProblem) -> Response {
        AdminResponse.problem(problem, realm: "authgateway")
    }
}

extension HTTPField.Name {
    /// RFC 6749 §5.1 wants it beside `Cache-Control`.
    fileprivate static var pragma: HTTPField.Name { HTTPField.Name("Pragma") ?? .cacheControl }
}

private struct VendedBody: Encodable {
    let accessToken: String
    let tokenType: String
    let expiresIn: Int?
    let expiresAt: String?

    init(_ token: VendedToken) {
        accessToken = token.access.withValue { $0 }
        tokenType = token.type
        expiresIn = token.expiresIn
        expiresAt = token.expiresAt?.rfc3339
    }
}
