import GatewayTools

@main
enum Main {
    static func main() async {
        AuthGateway.prepare()
        await AuthGateway.run()
    }
}
