extension PageScript {
    /// Server-sent events, read by hand: an EventSource sends no token.
    static let live = #"""
        const rowLimit = 300;
        let [stream, isPaused, last, held] = [null, false, 0, []];
        const filter = () => {
          const parameters = new URLSearchParams(location.search);
          parameters.delete("q");
          return parameters;
        };
        function addRow(html) {
          const row = find("li", parse("<ol>" + html + "</ol>"));
          if (!row || document.getElementById(row.id)) return;
          setTimes(row);
          row.className = "fresh";
          const list = find("#events");
          list.prepend(row);
          while (list.children.length > rowLimit) list.lastElementChild.remove();
          find("#live .none")?.remove();
        }
        function take(block) {
          const lines = block.split("\n");
          const value = (name) => lines.filter((line) => line.startsWith(name + ": ")).map((line) => line.slice(name.length + 2));
          const [id] = value("id");
          if (value("event")[0] === "gap") return void showEvents();
          const html = value("data").join("\n");
          if (!html) return;
          if (id) last = Math.max(last, Number(id));
          if (!isPaused) return addRow(html);
          held.push(html);
          if (held.length > rowLimit) held.shift();
          find("#pause").textContent = `Go on (${held.length} new)`;
        }
        async function listen() {
          if (stream) return;
          const own = new AbortController();
          stream = own;
          try {
            const answer = await ask("/live?" + filter(), { headers: { "Last-Event-ID": String(last) }, signal: own.signal });
            if (!answer.ok) throw new Error(answer.status);
            const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
            let text = "";
            for (;;) {
              const { value, done } = await reader.read();
              if (done) break;
              text += value;
              const blocks = text.split("\n\n");
              text = blocks.pop();
              blocks.forEach(take);
            }
          } catch {
            // Told by the state: the next refresh fails as well.
          }
          if (stream !== own) return;
          stream = null;
          if (!document.hidden) setTimeout(listen, 3000);
        }
        function hush() {
          const own = stream;
          stream = null;
          own?.abort();
        }
        async function showEvents() {
          const answer = await ask("/?" + filter());
          if (!answer.ok) return;
          const page = parse(await answer.text());
          setTimes(page);
          held = [];
          follow(find("#live"), find("#live", page));
          last = Number(find("#live").dataset.last);
          setPause(isPaused);
          hush();
          listen();
        }
        function choose(name, value) {
          const parameters = filter();
          if (value) parameters.set(name, value);
          else parameters.delete(name);
          history.replaceState(null, "", parameters.size ? "/?" + parameters : "/");
          showEvents();
        }
        function setPause(pause) {
          isPaused = pause;
          const button = find("#pause");
          button.setAttribute("aria-pressed", String(pause));
          button.textContent = "Pause";
          if (pause) button.textContent = "Go on";
          else held.splice(0).forEach(addRow);
        }
        """#
}
