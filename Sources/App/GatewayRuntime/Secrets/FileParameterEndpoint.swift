import GatewayCore
import GatewayFiles

/// Reads the files that are part of a request just before it is sent.
struct FileParameterEndpoint: TokenEndpoint {
    private static let limitBytes = 64 << 10

    let endpoint: any TokenEndpoint

    func send(_ request: TokenRequest, deadline: Duration) async -> Result<TokenReply, TokenTransportFailure> {
        guard !request.fileParameters.isEmpty else { return await endpoint.send(request, deadline: deadline) }
        let clock = ContinuousClock()
        let start = clock.now
        let filled = await OwnThread.run(within: deadline) { _ in Self.filled(request) }
        switch filled {
        case .failure:
            let path = request.fileParameters.first?.path ?? ""
            return .failure(TokenTransportFailure(unreadable: path, .init("it was not read in time")))
        case .success(.failure(let failure)): return .failure(failure)
        case .success(.success(let request)):
            let left = deadline - (clock.now - start)
            return await endpoint.send(request, deadline: max(left, .milliseconds(1)))
        }
    }

    /// Blocks. Such files are for others to read, too: those of Kubernetes have the mode 644.
    private static func filled(_ request: TokenRequest) -> Result<TokenRequest, TokenTransportFailure> {
        do throws(TokenTransportFailure) {
            return .success(
                try request.filled { path in
                    do throws(BoundedFile.Failure) {
                        return .success(try BoundedFile.read(path, limit: limitBytes).bytes)
                    } catch {
                        return .failure(TokenTransportFailure.UnreadableFile(error.message))
                    }
                }
            )
        } catch {
            return .failure(error)
        }
    }
}
