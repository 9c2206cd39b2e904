/// What a person needs who meets an error code: what happened, who can mend it, and how.
package struct ErrorAdvice: Hashable, Sendable, Encodable {
    /// Who can mend it. The raw value ends the sentence "who can mend it: ...".
    package enum Person: String, Sendable, Encodable {
        case client = "the developer or user of the client"
        case `operator` = "the operator of the gateway"
        case upstream = "the operator of the upstream"
        case authority = "the operator of the authority"
        case time = "no person is needed: it ends by itself"
    }

    package let happened: String
    package let person: Person
    package let remedy: String
    /// Commands to type. `NAME` stands for the credential, `ID` for the request, `URL` for the request's address.
    package let commands: [String]

    init(_ happened: String, _ person: Person, _ remedy: String, _ commands: String...) {
        self.happened = happened
        self.person = person
        self.remedy = remedy
        self.commands = commands
    }
}
