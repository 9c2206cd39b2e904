/// Words that are tried first, and that documents use: no token of a client may be one of them, whether it is given itself or as its SHA-256.
///
/// A digest hides a token only if the token cannot be guessed. This list catches what was copied from somewhere, not every weak token.
enum WellKnownTokens {
    /// Each word, and its SHA-256 in hexadecimal digits.
    static let digests = [
        "": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "test": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "test1": "1b4f0e9851971998e732078544c96b36c3d01cedf7caa332359d6f1d83567014",
        "test2": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
        "test3": "fd61a03af4f77d870fc21e05e7e80678095c92d808cfb3b5c279ee04c74aca13",
        "token": "3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0",
        "secret": "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
        "password": "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",
        "changeme": "057ba03d6c44104863dc7361fe4578965d1887360f90a0895882e58a6248fc86",
        "admin": "8c6976e5b5410415bde908bd4dee15dfb167a9c873fc4bb8a81f6f2ab448a918",
        "example": "50d858e0985ecc7f60418aaf0cc5ab587f42c2570a884095a9e8ccacd0f6545c",
        "letmein": "1c8bfe8f801d79745c4631d09fff36c82aa37fc4cce4fc946683d7b336b63032",
        "123456": "8d969eef6ecad3c29a3a629280e686cf0c3f5d5a86aff3ca12020c923adc6c92",
    ]

    static let message = "the token is a word that everybody tries; make one with `openssl rand -hex 32`"
    static let digestMessage =
        "this is the SHA-256 of a word that everybody tries; make a token with `openssl rand -hex 32`, and its digest with "
        + "`printf %s \"$TOKEN\" | sha256sum`"

    static func holds(word: String) -> Bool { digests[word.lowercased()] != nil }

    /// - Parameter digest: 64 hexadecimal digits, in either case.
    static func holds(digest: String) -> Bool { digests.values.contains(digest.lowercased()) }
}
