/// The scripts of Envoy's Lua filters. They pass on what one attempt has to tell the next in the request's dynamic metadata.
enum EnvoyScript {
    /// Before Envoy asks: keeps what the client sent, for a second question, and removes what only the gateway may say.
    static let request = lines(
        """
        function envoy_on_request(handle)
          local fields = handle:headers()
          local asked, own = {}, {}
          for name, value in pairs(fields) do
            if name:sub(1, 5) == "x-gw-" or name:sub(1, 8) == "x-envoy-" then
              own[#own + 1] = name
            elseif name ~= "content-length" and name ~= "transfer-encoding" and name ~= "expect" and name ~= "te"
                and name ~= "upgrade" then
              asked[name] = value
            end
          end
          for _, name in ipairs(own) do fields:remove(name) end
          asked["x-gw-route"] = handle:metadata():get("route")
          fields:add("x-gw-route", asked["x-gw-route"] or "")
          handle:streamInfo():dynamicMetadata():set("authgateway", "asked", asked)
        end
        """
    )

    /// After the gateway has answered.
    static let answer = lines(
        """
        function envoy_on_request(handle)
          local fields = handle:headers()
          local metadata = handle:streamInfo():dynamicMetadata()
          metadata:set("authgateway", "generation", fields:get("x-gw-generation") or "")
          fields:remove("x-gw-generation")
        end
        """
    )

    /// Runs for each attempt, and asks again before the second one.
    ///
    /// - Parameters:
    ///   - fields: That the answer brings.
    ///   - timeout: In seconds.
    static func renewal(fields: [String], pathPrefix: String, tokenVariable: String?, timeout: Int) -> [String] {
        let names = fields.map { JSONString.quoted($0.lowercased()) }.joined(separator: ", ")
        let path =
            pathPrefix.isEmpty ? "" : "  asked[\":path\"] = \(JSONString.quoted(pathPrefix)) .. asked[\":path\"]\n"
        let token = tokenVariable.map { "  asked[\"x-gw-engine-token\"] = os.getenv(\(JSONString.quoted($0)))\n" } ?? ""
        return lines(
            """
            function envoy_on_request(handle)
              local metadata = handle:streamInfo():dynamicMetadata()
              local known = metadata:get("authgateway")
              if known == nil or known["attempted"] == nil then
                metadata:set("authgateway", "attempted", "yes")
                return
              end
              if known["generation"] == nil or known["generation"] == "" then return end
              local asked = {}
              for name, value in pairs(known["asked"]) do asked[name] = value end
            \(path)\(token)  asked["x-gw-rejected-generation"] = known["generation"]
              local answer = handle:httpCall("authgateway", asked, "", \(timeout * 1000))
              if answer == nil or answer[":status"] ~= "200" then
                handle:respond({[":status"] = "503"}, "")
                return
              end
              for _, name in ipairs({\(names)}) do
                handle:headers():replace(name, answer[name] or "")
              end
            end
            """
        )
    }

    private static func lines(_ text: String) -> [String] {
        text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }
}
