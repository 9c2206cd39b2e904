import GatewayHTTP
import GatewayTokens

/// Lets each request of a route say whose token it goes with: in a field, or by its method and path.
///
/// A class, so that looking whether a route has one copies one reference.
final class SubjectRule: Sendable {
    private enum Naming {
        /// The name of the field, in lower case.
        case field([UInt8])
        case challenge(any ChallengeRule)
    }

    private let selection: any SubjectCredentialResolver
    private let naming: Naming

    init(_ selection: any SubjectCredentialResolver) {
        self.selection = selection
        naming =
            switch selection.naming {
            case .field(let name): .field(name.utf8.map(\.asciiLowercased))
            case .challenge(let rule): .challenge(rule)
            }
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
        _ bytes: borrowing Span<UInt8>,
        client: String?
    ) -> Result<(subject: String, source: (any CredentialSource)?), GatewayProblem> {
        subject(of: head, bytes).flatMap { subject in
            selection.look(for: subject, client: client).map { (subject, $0) }
        }
    }

    private func subject(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> Result<String, GatewayProblem> {
        switch naming {
        case .field(let name): return subject(in: name, of: head, bytes)
        case .challenge(let rule):
            return .success(rule.requestKey(method: bytes.string(head.method), path: bytes.string(head.path)))
        }
    }

    private func subject(
        in field: [UInt8],
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> Result<String, GatewayProblem> {
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
