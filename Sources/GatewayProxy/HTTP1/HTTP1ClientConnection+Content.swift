import GatewayCore
import NIOCore

extension HTTP1ClientConnection {
    func readContent() -> Bool {
        guard let exchange, exchange.intake == .content else { return false }
        switch reader.nextPart(forbidden: forbiddenTrailers(exchange)) {
        case .content(let bytes, let length, let isLast): exchange.receive(bytes, length: length, isLast: isLast)
        case .trailers(let bytes): exchange.receive(trailers: bytes)
        case .needMore: return false
        case .broken(let length):
            let problem = GatewayProblem(.requestRefused, "The chunked body is not valid.")
            exchange.requestBroke(problem, behind: length)
        case .refusedTrailers(let reason):
            exchange.requestBroke(reason.problem("The trailers were", under: configuration.limits))
        }
        return true
    }

    private func forbiddenTrailers(_ exchange: ExchangeDriver) -> [[UInt8]] {
        guard reader.awaitsTrailers else { return [] }
        return exchange.namesKeptFromUpstream + request.decoder.head.options.nominatedAsOwned
    }

    func readTunnel() -> Bool {
        guard let exchange, exchange.intake == .content else { return false }
        exchange.receive(tunnelled: reader.takeAll())
        return true
    }
}
