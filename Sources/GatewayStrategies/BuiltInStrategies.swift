package import GatewayTokens

extension StrategyCatalog {
    /// Every strategy the gateway ships with, in alphabetical order of `kind`.
    package static let builtIn = StrategyCatalog(
        [
            AWSSignatureStrategy.self,
            BasicStrategy.self,
            BearerStrategy.self,
            BoxCCGStrategy.self,
            BoxDeveloperTokenStrategy.self,
            BoxJWTStrategy.self,
            BoxOAuthStrategy.self,
            DelegatedStrategy.self,
            DigestStrategy.self,
            DukeSessionStrategy.self,
            ExecStrategy.self,
            GitHubAppStrategy.self,
            GoogleServiceAccountStrategy.self,
            HeaderStrategy.self,
            JWTStrategy.self,
            NoneStrategy.self,
            AuthorizationCodeStrategy.self,
            ClientCredentialsStrategy.self,
            JWTBearerStrategy.self,
            PasswordStrategy.self,
            TokenExchangeStrategy.self,
            RecipeStrategy.self,
            RegistryStrategy.self,
            SessionRefreshStrategy.self,
        ]
    )
}
