/// The files that may look into a `Secret`. Each was read for what it does with the value: written into a request or
/// a cipher, compared, or digested; never into a text that a person or a log gets to see.
enum SecretReaders {
    static let files: Set<String> = [
        "App/GatewayRuntime/Operator/AdminClient.swift",
        "App/GatewayRuntime/Secrets/PrivateKeyOpener.swift",
        "Adapters/GatewayAudit/AuditEventRow.swift",
        "Adapters/GatewayTokenClient/AsyncHTTPTokenEndpoint.swift",
        "Adapters/GatewayTokenStores/InstallationKey.swift",
        "Adapters/GatewayTokenStores/TokenRecord.swift",
        "Core/GatewayCore/Access/ClientRegistry.swift",
        "Core/GatewayCore/Auth/Injection.swift",
        "Core/GatewayCore/Config/ConfigFields.swift",
        "Core/GatewayCore/Config/Summary/PlanDigest.swift",
        "Core/GatewayCore/HTTP/FormEncoding.swift",
        "Core/GatewayCore/Tokens/GrantIdentity.swift",
        "Core/GatewayStrategies/Box/BoxAppSettings.swift",
        "Core/GatewayStrategies/OAuth/ClientAuthentication.swift",
        "Core/GatewayStrategies/OAuth/PKCE.swift",
        "Core/GatewayStrategies/Shared/ConfigFields+Credentials.swift",
        "Core/GatewayStrategies/Shared/UnverifiedJWT.swift",
        "Core/GatewayStrategies/Signing/JWTSigner.swift",
        "Core/GatewayStrategies/Signing/SigningKey.swift",
        "Core/GatewayStrategies/Static/BasicStrategy.swift",
        "Core/GatewayStrategies/Static/HeaderStrategy.swift",
        "DataPlane/GatewayProxy/Listener.swift",
        "DataPlane/GatewayProxy/ServedRoute.swift",
        "DataPlane/GatewayProxy/UpstreamTarget.swift",
        "Testing/GatewayTesting/Config/SampleKeys.swift",
        "Testing/GatewayTesting/Conformance/LoginFlowConformance.swift",
        "Testing/GatewayTesting/Conformance/TokenGrantConformance.swift",
        "Testing/GatewayTesting/Doubles/SampleLogin.swift",
    ]
}
