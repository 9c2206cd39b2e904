extension HAProxyExport {
    /// The same for every configuration: what differs stands in the arguments of its actions.
    package static let script = """
        -- HAProxy loads this for AuthGateway: it asks the gateway for the credential of a request.
        local token = os.getenv("\(EngineExport.tokenVariable)")
        -- Of the connection between the client and HAProxy, or of HAProxy's own question.
        local private = {
          ["connection"] = true, ["content-length"] = true, ["expect"] = true, ["host"] = true, ["keep-alive"] = true,
          ["proxy-connection"] = true, ["te"] = true, ["trailer"] = true, ["transfer-encoding"] = true, ["upgrade"] = true,
        }

        local function copy(fields)
          local asked = {}
          for name, values in pairs(fields) do
            if not private[name] and name:sub(1, 5) ~= "x-gw-" and name:sub(1, 12) ~= "x-forwarded-" then
              asked[name] = {}
              for index = 0, #values do table.insert(asked[name], values[index]) end
            end
          end
          return asked
        end

        local function first(fields, name)
          local values = fields and fields[name]
          return values and values[0]
        end

        local function ask(url, destination, timeout, asked)
          asked["x-gw-engine-token"] = token and {token} or nil
          local request = {url = url, headers = asked, timeout = tonumber(timeout)}
          if destination ~= "-" then request.dst = destination end
          return core.httpclient():get(request)
        end

        core.register_action("authgateway_ask", {"http-req"}, function(txn, url, destination, timeout, names)
          local fields = txn.http:req_get_headers()
          local asked = copy(fields)
          local hosts = fields["host"]
          if hosts == nil or hosts[1] ~= nil then return end
          asked["x-forwarded-method"] = {txn.sf:method()}
          asked["x-forwarded-uri"] = {txn.sf:pathq()}
          asked["x-forwarded-host"] = {hosts[0]}
          asked["x-forwarded-proto"] = {txn.sf:ssl_fc() == 1 and "https" or "http"}
          asked["x-gw-route"] = {txn:get_var("txn.gw_route")}
          local answer = ask(url, destination, timeout, asked)
          if answer == nil or answer.status == nil or answer.status < 200 then return end
          if answer.status ~= 200 then
            local reply = txn:reply({status = answer.status, body = answer.body})
            for _, name in ipairs({"content-type", "www-authenticate", "retry-after"}) do
              local value = first(answer.headers, name)
              if value then reply:add_header(name, value) end
            end
            txn:done(reply)
          end
          local index = 0
          for name in names:gmatch("[^,]+") do
            local value = first(answer.headers, name:lower())
            if value == nil then return end
            index = index + 1
            txn:set_var("txn.gw_field_" .. index, value)
          end
          local generation = first(answer.headers, "x-gw-generation")
          if generation then
            asked["x-gw-rejected-generation"] = {generation}
            txn:set_priv(asked)
          end
          txn:set_var("txn.gw_granted", true)
        end, 4)

        core.register_action("authgateway_rejected", {"http-res"}, function(txn, url, destination, timeout)
          local asked = txn:get_priv()
          if asked then ask(url, destination, timeout, asked) end
        end, 3)

        """
}
