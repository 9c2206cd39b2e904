package import GatewayHTTP

extension FormEncoding {
    package static func encode(_ parameters: [TokenRequest.Parameter]) -> [UInt8] {
        var bytes: [UInt8] = []
        for parameter in parameters {
            if !bytes.isEmpty { bytes.append(UInt8(ascii: "&")) }
            PercentEncoding.append(parameter.name, to: &bytes, isForm: true)
            bytes.append(UInt8(ascii: "="))
            parameter.value.withValue { PercentEncoding.append($0, to: &bytes, isForm: true) }
        }
        return bytes
    }
}
