/// Why something that a person wrote or named cannot be used: a URL, a pattern, a secret, a curl command.
///
/// The message is for that person. It follows the name or the key of what is meant, and holds no part of a secret. Where
/// callers need more than words, such as a line or which of several reasons it is, the error has a type of its own.
package struct UnusableInput: Error, Hashable, Sendable {
    package let message: String
    package init(_ message: String) { self.message = message }
}
