/// A JSON value whose members keep their order, for a file that people compare.
indirect enum SchemaValue: Sendable {
    case object([(String, SchemaValue)])
    case array([SchemaValue])
    case string(String)
    case number(Int)
    case bool(Bool)

    func text(indent: Int = 0) -> String {
        let margin = String(repeating: " ", count: indent + 2)
        let end = "\n" + String(repeating: " ", count: indent)
        switch self {
        case .string(let text): return JSONString.quoted(text)
        case .number(let number): return String(number)
        case .bool(let value): return String(value)
        case .array(let values):
            let isFlat = values.allSatisfy { if case .string = $0 { true } else { false } }
            let texts = values.map { $0.text(indent: indent + 2) }
            if isFlat { return "[\(texts.joined(separator: ", "))]" }
            return "[\n" + texts.map { margin + $0 }.joined(separator: ",\n") + end + "]"
        case .object(let members):
            guard !members.isEmpty else { return "{}" }
            let texts = members.map { "\(margin)\(JSONString.quoted($0)): \($1.text(indent: indent + 2))" }
            return "{\n" + texts.joined(separator: ",\n") + end + "}"
        }
    }
}
