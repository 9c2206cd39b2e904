/// The files that may look into a `Secret`. Each was read for what it does with the value: written into a request or
/// a cipher, compared, or digested; never into a text that a person or a log gets to see.
enum SecretReaders {
    static let files: Set<String> = [
        "Core/GatewayCore/Auth/Injection.swift",
        "Core/GatewayCore/Config/ConfigFields.swift",
        "Core/GatewayCore/Tokens/GrantIdentity.swift",
    ]
}
