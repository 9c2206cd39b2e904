/// The script of the page. It keeps up to date what the server has written, and writes nothing by itself; without it the page
/// is the same.
enum PageScript {
    static let text = """
        "use strict";
        (() => {
        \(keeping)
        \(requests)
        \(clock)
        \(actions)
        \(live)
        \(uses)
        \(start)
        })();

        """

    /// Makes one tree like another, so that focus, selection and what is opened stay.
    private static let keeping = #"""
        const find = (selector, from = document) => from.querySelector(selector);
        const all = (selector, from = document) => [...from.querySelectorAll(selector)];
        const parse = (text) => new DOMParser().parseFromString(text, "text/html");

        const keyOf = (node) => node.id || node.nodeName;
        function follow(old, next) {
          if (old.nodeType !== next.nodeType || keyOf(old) !== keyOf(next)) return old.replaceWith(next.cloneNode(true));
          if (old.nodeType !== Node.ELEMENT_NODE) {
            if (old.data !== next.data) old.data = next.data;
            return;
          }
          for (const { name } of [...old.attributes]) {
            if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
          }
          for (const { name, value } of next.attributes) {
            if (old.getAttribute(name) !== value) old.setAttribute(name, value);
          }
          // What the script has put there stays.
          if (old.dataset.who === undefined) followChildren(old, next);
        }
        function followChildren(old, next) {
          const known = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
          let place = old.firstChild;
          for (const child of [...next.childNodes]) {
            const own = child.id && known.get(child.id);
            if (own && own !== place) old.insertBefore(own, place);
            const target = own || place;
            if (!target) old.append(child.cloneNode(true));
            else {
              place = target.nextSibling;
              follow(target, child);
            }
          }
          while (place) {
            const rest = place;
            place = place.nextSibling;
            rest.remove();
          }
        }
        """#

    /// The admin token is asked for once, and kept by this tab alone.
    private static let requests = #"""
        const storage = "authgateway-admin-token";
        const token = () => sessionStorage.getItem(storage);
        function opened(dialog) {
          return new Promise((done) => {
            dialog.returnValue = "";
            dialog.addEventListener("close", () => done(dialog.returnValue === "ok"), { once: true });
            dialog.showModal();
          });
        }
        async function askToken(wasWrong) {
          const field = find("#admin-token");
          field.value = "";
          find("#wrong-token").hidden = !wasWrong;
          const answered = await opened(find("#ask-token"));
          if (answered) sessionStorage.setItem(storage, field.value.trim());
          field.value = "";
          return answered;
        }
        async function ask(path, options = {}) {
          const headers = { ...options.headers };
          if (token()) headers.Authorization = "Bearer " + token();
          return fetch(path, { ...options, headers, cache: "no-store" });
        }
        async function askAuthorized(path, options = {}) {
          // A certificate of the browser may be enough.
          let answer = await ask(path, options);
          while (answer.status === 401) {
            const wasWrong = token() !== null;
            sessionStorage.removeItem(storage);
            if (!(await askToken(wasWrong))) return null;
            answer = await ask(path, options);
          }
          return answer;
        }
        let noticeTimer;
        function notify(text) {
          const notice = find("#notice");
          if (!notice) return;
          notice.textContent = text;
          notice.hidden = false;
          clearTimeout(noticeTimer);
          noticeTimer = setTimeout(() => (notice.hidden = true), 8000);
        }
        """#

    private static let clock = #"""
        const two = (number) => String(number).padStart(2, "0");
        function remaining(seconds) {
          if (seconds >= 172800) return Math.floor(seconds / 86400) + " days";
          const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
          if (hours > 0) return `${hours} h ${minutes} min`;
          return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
        }
        function localTime(time, style) {
          const clock = `${two(time.getHours())}:${two(time.getMinutes())}`;
          if (style === "minute") return clock;
          if (time.toDateString() !== new Date().toDateString()) {
            return `${time.getDate()} ${time.toLocaleString("en", { month: "short" })} ${clock}`;
          }
          const whole = `${clock}:${two(time.getSeconds())}`;
          return style === "millisecond" ? `${whole}.${String(time.getMilliseconds()).padStart(3, "0")}` : whole;
        }
        function setTimes(root) {
          for (const element of all("time[data-style]", root)) {
            const time = new Date(element.dateTime);
            if (Number.isNaN(time.getTime())) continue;
            element.textContent = localTime(time, element.dataset.style);
            element.title = time.toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" });
          }
          countDown(root);
        }
        function countDown(root) {
          for (const element of all("time[data-until]", root)) {
            const seconds = Math.ceil((new Date(element.dateTime) - Date.now()) / 1000);
            const { unit = "", until } = element.dataset;
            const text = seconds > 0 ? remaining(seconds) + unit : until;
            if (element.textContent !== text) element.textContent = text;
          }
        }
        """#

    private static let actions = #"""
        let isLost = false;
        function show(page) {
          document.title = page.title;
          const icon = find("#icon", page);
          if (icon && icon.getAttribute("href") !== find("#icon").getAttribute("href")) find("#icon").href = icon.href;
          setTimes(page);
          for (const section of all("[data-live]", page)) {
            const own = document.getElementById(section.id);
            if (own) follow(own, section);
          }
        }
        async function refresh() {
          try {
            const answer = await ask("/?" + filter());
            if (answer.status === 401) return location.reload();
            if (!answer.ok) throw new Error(answer.status);
            show(parse(await answer.text()));
            showOpenUses();
            isLost = false;
          } catch {
            if (!isLost) lose();
          }
        }
        function lose() {
          isLost = true;
          const pill = find("#state .pill");
          pill.className = "pill bad";
          pill.textContent = "No answer since " + localTime(new Date());
          document.title = "No answer – AuthGateway";
          find("#icon").href = "/icon.svg?plain";
        }
        async function explain(question, remember) {
          find("#question").value = question;
          // A curl line with options may hold a token: that has no address.
          if (remember && !/\s-/.test(question)) history.pushState(null, "", "/explain?q=" + encodeURIComponent(question));
          const answer = await askAuthorized("/explain", { method: "POST", body: new URLSearchParams({ q: question }) });
          if (!answer) return;
          const page = parse(await answer.text());
          setTimes(page);
          find("#answer").replaceChildren(...find("#answer", page).childNodes);
        }
        async function operate(button) {
          const { operation, credential, words } = button.dataset;
          if (operation !== "refresh" && operation !== "unlock") {
            const verb = operation[0].toUpperCase() + operation.slice(1);
            find("#confirm-title").textContent = `${verb} ${credential}?`;
            find("#confirm-text").textContent = words;
            find("#confirm-yes").textContent = verb;
            if (!(await opened(find("#confirm")))) return;
          }
          await change(button, `/api/tokens/${encodeURIComponent(credential)}/${operation}`, (report) => report.message);
        }
        function reloadText(report) {
          return report.outcome === "loaded" ? "The configuration is loaded." : report.problems;
        }
        async function change(button, path, words) {
          button.disabled = true;
          try {
            const answer = await askAuthorized(path, { method: "POST" });
            if (answer) {
              const report = await answer.json();
              notify(report.detail || words(report) || "Done.");
            }
          } catch {
            notify("The gateway did not answer.");
          }
          button.disabled = false;
          button.focus();
          await refresh();
        }
        async function copy(button) {
          try {
            await navigator.clipboard.writeText(button.dataset.copy);
            notify("Copied: " + button.dataset.copy);
          } catch {
            getSelection().selectAllChildren(find("code", button.parentElement));
            notify("Press Ctrl+C to copy.");
          }
        }
        """#

    private static let start = #"""
        function onClick(event) {
          const target = event.target.closest("button, a.chip[data-kind], a[data-show], a[data-explain]");
          if (!target || event.ctrlKey || event.metaKey || event.shiftKey) return;
          if (target.dataset.explain !== undefined) {
            event.preventDefault();
            explain(target.dataset.explain, true).then(() => find("#question").scrollIntoView({ block: "nearest" }));
            return;
          }
          if (target.dataset.copy !== undefined) copy(target);
          else if (target.dataset.operation) operate(target);
          else if (target.dataset.reload !== undefined) change(target, "/api/reload", reloadText);
          else if (target.id === "pause") setPause(!isPaused);
          else if (target.dataset.show !== undefined) {
            event.preventDefault();
            history.replaceState(null, "", target.getAttribute("href").split("#")[0]);
            refresh();
          } else if (target.dataset.kind !== undefined) {
            event.preventDefault();
            choose("kind", target.dataset.kind);
          }
        }
        async function unlock() {
          document.documentElement.classList.add("scripted");
          const form = find("#locked form");
          const enter = async () => {
            const answer = await ask(location.pathname + location.search);
            if (answer.status === 401) return sessionStorage.removeItem(storage);
            const page = parse(await answer.text());
            document.title = page.title;
            document.body.replaceChildren(...page.body.childNodes);
            begin();
          };
          form.addEventListener("submit", (event) => {
            event.preventDefault();
            sessionStorage.setItem(storage, find("#page-token").value.trim());
            enter().then(() => find("#locked") && form.submit());
          });
          if (token()) enter();
        }
        function begin() {
          document.documentElement.classList.add("scripted");
          setTimes(document);
          last = Number(find("#live").dataset.last);
          document.addEventListener("click", onClick);
          document.addEventListener("change", (event) => {
            if (event.target.closest("#filters select")) choose(event.target.name, event.target.value);
            if (event.target.closest("#traffic-form")) {
              set(event.target.name, event.target.value);
              refresh();
            }
          });
          document.addEventListener("submit", (event) => {
            if (!event.target.matches(".explain")) return;
            event.preventDefault();
            explain(find("#question").value, true);
          });
          document.addEventListener("toggle", showOpenUses, true);
          addEventListener("popstate", () => {
            const question = new URLSearchParams(location.search).get("q");
            if (location.pathname === "/explain" && question) explain(question, false);
            else find("#answer").replaceChildren();
          });
          setInterval(() => countDown(document), 1000);
          setInterval(() => document.hidden || refresh(), 5000);
          // A browser has six connections for all tabs: hidden tabs close theirs.
          document.addEventListener("visibilitychange", () => {
            if (document.hidden) return hush();
            refresh();
            listen();
          });
          listen();
          if (find("#answer[data-asked]")) explain(find("#question").value, false);
        }
        if (find("#locked")) unlock();
        else begin();
        """#

    /// Who used a credential: asked when its row is opened, and again after a minute.
    private static let uses = #"""
        const asked = new WeakMap();
        function cell(kind, text, row) {
          const cell = document.createElement(kind);
          if (text instanceof Node) cell.append(text);
          else cell.textContent = text;
          if (kind === "th") cell.scope = "col";
          row.append(cell);
        }
        function timeOf(text) {
          const time = document.createElement("time");
          time.dateTime = text;
          time.dataset.style = "second";
          return time;
        }
        function usesTable(answer, title, nobody) {
          const table = document.createElement("table");
          const head = table.createTHead().insertRow();
          [title, "Requests", "401, 403", "5xx", "Last"].forEach((text) => cell("th", text, head));
          const body = table.createTBody();
          for (const group of answer.groups.slice(0, 50)) {
            const count = (...names) =>
              group.results.filter(({ status }) => names.includes(status)).reduce((sum, { requests }) => sum + requests, 0);
            const row = body.insertRow();
            cell("td", group.name ?? nobody, row);
            const numbers = [group.requests, count("401", "403"), count("5xx", "no response")];
            numbers.forEach((number) => cell("td", number.toLocaleString("en"), row));
            cell("td", timeOf(group.last_at), row);
          }
          return table;
        }
        async function showUses(place) {
          const { who, since } = place.dataset;
          const earlier = asked.get(place);
          if (earlier && earlier.since === since && Date.now() - earlier.at < 60000) return;
          asked.set(place, { since, at: Date.now() });
          const question = (by) =>
            ask("/api/audit/who/" + encodeURIComponent(who), { method: "POST", body: JSON.stringify({ by, since }) });
          try {
            const answers = await Promise.all(["client", "route"].map(question));
            const [clients, routes] = await Promise.all(answers.map((answer) => answer.json()));
            const period = since === "7d" ? "in the last 7 days" : "in the last 24 hours";
            const heading = document.createElement("p");
            const parts = [heading];
            if (!answers[0].ok) heading.textContent = clients.detail ?? "";
            else if (!clients.total) heading.textContent = `Nobody used it ${period}.`;
            else {
              heading.textContent = `Who used it ${period}`;
              parts.push(usesTable(clients, "Client", "no name"));
              if (routes.groups?.length > 1) parts.push(usesTable(routes, "Route", "none"));
            }
            place.replaceChildren(...parts);
            setTimes(place);
          } catch {
            asked.delete(place);
          }
        }
        const showOpenUses = () => all(".entry[open] .who").forEach(showUses);
        """#

    /// Server-sent events, read by hand: an EventSource sends no token.
    private static let live = #"""
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
          // A row that counts several events is written after they were.
          const time = (each) => find("time", each)?.dateTime ?? "";
          const later = [...list.children].filter((each) => time(each) > time(row));
          list.insertBefore(row, later.length ? later.at(-1).nextSibling : list.firstChild);
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
          find("#pause").textContent = `Resume (${held.length} new)`;
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
        function set(name, value) {
          const parameters = filter();
          if (value) parameters.set(name, value);
          else parameters.delete(name);
          history.replaceState(null, "", parameters.size ? "/?" + parameters : "/");
        }
        function choose(name, value) {
          set(name, value);
          showEvents();
        }
        function setPause(pause) {
          isPaused = pause;
          const button = find("#pause");
          button.setAttribute("aria-pressed", String(pause));
          button.textContent = "Pause";
          if (pause) button.textContent = "Resume";
          else held.splice(0).forEach(addRow);
        }
        """#
}
