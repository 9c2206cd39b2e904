import GatewayTools

@main
enum Main {
    static func main() async { await AuthGateway.main() }
}
