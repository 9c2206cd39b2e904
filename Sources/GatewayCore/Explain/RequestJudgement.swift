/// What the gateway would do with a described request, as the code that serves has decided it. Holds no secret.
package struct RequestJudgement: Sendable {
    /// The gateway's credential for the request.
    package struct CredentialUse: Sendable {
        package enum Answer: Sendable {
            /// There is one to inject.
            case ready(generation: Int)
            /// The request waits for it.
            case awaited
            case unavailable(GatewayProblem)
        }

        package let name: String
        package let strategy: String
        /// It has a token that comes and goes; otherwise it is what the configuration says.
        package let hasToken: Bool
        package let answer: Answer
        /// Fields that are injected, with a description in the place of the value.
        package let fields: [DescribedRequest.Field]
        /// The query parameter that is injected.
        package let parameter: String?

        package init(
            name: String,
            strategy: String,
            hasToken: Bool,
            answer: Answer,
            fields: [DescribedRequest.Field],
            parameter: String?
        ) {
            self.name = name
            self.strategy = strategy
            self.hasToken = hasToken
            self.answer = answer
            self.fields = fields
            self.parameter = parameter
        }

        /// What stands in the place of its value.
        package static func placeholder(_ name: String, generation: Int, hasToken: Bool) -> String {
            hasToken ? "(token of \(name), generation \(generation))" : "(credential \(name))"
        }
    }

    /// The head that the upstream would get. What the gateway injects has been replaced by a description before it was written.
    package struct Departure: Sendable {
        package let head: [UInt8]
        /// Those of the request that are not in it.
        package let dropped: [(name: String, reason: RequestFieldRules.DropReason)]
        /// Those in it that are not the client's.
        package let added: [DescribedRequest.Field]

        package init(
            head: [UInt8],
            dropped: [(name: String, reason: RequestFieldRules.DropReason)],
            added: [DescribedRequest.Field]
        ) {
            self.head = head
            self.dropped = dropped
            self.added = added
        }
    }

    package let arrival: ListenerMatch
    package let request: DescribedRequest
    package var trace = AuthorizationTrace()
    /// What the client would be answered; nil when the request goes to the upstream.
    package var problem: GatewayProblem?
    /// Whether that answer names routes, credentials and strategies.
    package var disclosesNames = false
    package var route: RoutePlan?
    /// Host and port to which bytes pass as they are, where no route leads there.
    package var tunnel: String?
    package var credential: CredentialUse?
    package var departure: Departure?
    package var remarks: [String] = []
    /// The field of the answer that names the request; nil for none.
    package var idField: String?

    package init(_ request: DescribedRequest, arrival: ListenerMatch) {
        self.request = request
        self.arrival = arrival
    }
}
