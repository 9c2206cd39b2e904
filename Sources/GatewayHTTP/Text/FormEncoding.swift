/// `application/x-www-form-urlencoded`, strictly: everything but letters, digits and `-._~` is escaped, a space is `+`.
package enum FormEncoding {
    package static func encode(_ text: String) -> String {
        var bytes: [UInt8] = []
        PercentEncoding.append(text, to: &bytes, isForm: true)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Undoes the encoding; nil when an escape is broken or the bytes are not UTF-8.
    package static func decode(_ bytes: some Sequence<UInt8>) -> String? {
        PercentEncoding.decodeStrictly(Array(bytes), isForm: true)
    }
}
