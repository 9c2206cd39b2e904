// Until GatewayCore is gone: who imports it sees what left it.
@_exported public import GatewayConfiguration
@_exported public import GatewayEvents
@_exported public import GatewayHTTP
@_exported public import GatewayTokens
