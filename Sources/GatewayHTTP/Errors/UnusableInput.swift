/// Why something that a person wrote or named cannot be used: a URL, a pattern, a template, a token of another credential.
///
/// The message is for that person. It follows the name or the key of what is meant, and holds no secret. Where callers need more
/// than words, such as the line or a choice of words of their own, the error has a type of its own.
package struct UnusableInput: Error, Hashable, Sendable {
    package let message: String
    package init(_ message: String) { self.message = message }
}
