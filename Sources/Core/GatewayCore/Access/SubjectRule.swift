/// Lets each request of a route say whose token it goes with: in a field, or by its method and path.
package struct SubjectRule: Sendable {
    private let selection: any SubjectCredentialResolver
    /// In lower case; nil where no field says it.
    private let field: [UInt8]?

    package init(_ selection: any SubjectCredentialResolver) {
        self.selection = selection
        field = selection.field.map { $0.utf8.map(\.asciiLowercased) }
    }

    func source(
        for head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        client: String?
    ) -> Result<any CredentialSource, GatewayProblem> {
        subject(of: head, bytes).flatMap { selection.source(for: $0, client: client) }
    }

    /// The subject that the request names, with its source if there is one already. Makes none.
    func look(
        for head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> Result<(subject: String, source: (any CredentialSource)?), GatewayProblem> {
        subject(of: head, bytes).flatMap { subject in selection.look(for: subject).map { (subject, $0) } }
    }

    private func subject(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> Result<String, GatewayProblem> {
        guard let field else {
            let isRead = bytes.isToken(head.method, "get") || bytes.isToken(head.method, "head")
            return .success(RegistryRule.place(isRead: isRead, path: bytes.string(head.path)))
        }
        var value: Range<Int>?
        for index in head.section.fields.indices {
            let candidate = head.section.fields[index]
            guard bytes.equalsLowercased(candidate.name, field) else { continue }
            guard value == nil else { return .failure(selection.repeatedSubject) }
            value = candidate.value
        }
        guard let value, !value.isEmpty else { return .failure(selection.missingSubject) }
        // Longer ones are refused in any case, and need not be read to their end for that.
        return .success(bytes.string(value.prefix(SubjectSyntax.longest + 1)))
    }
}
