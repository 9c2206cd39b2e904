/// The style sheet of the status page; served by itself so that the content security policy can forbid inline styles.
enum StatusPageStyle {
    static let css = """
        :root { color-scheme: light dark; --ink: #1c2024; --soft: #60646c; --line: #e0e1e6; --back: #fcfcfd;
          --card: #ffffff; --good: #18794e; --warn: #9a5b00; --bad: #c62a2f; }
        @media (prefers-color-scheme: dark) { :root { --ink: #edeef0; --soft: #a0a4ab; --line: #2e3135;
          --back: #111113; --card: #18191b; --good: #4cc38a; --warn: #f1a10d; --bad: #ff9592; } }
        * { box-sizing: border-box; }
        body { margin: 0 auto; max-width: 64rem; padding: 1.5rem 1rem 3rem; background: var(--back); color: var(--ink);
          font: 15px/1.5 system-ui, sans-serif; }
        header { display: flex; align-items: baseline; gap: .75rem; flex-wrap: wrap; }
        h1 { font-size: 1.35rem; margin: 0; }
        h2 { font-size: 1rem; margin: 2rem 0 .5rem; }
        .soft, footer { color: var(--soft); }
        .scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; background: var(--card); }
        table { border-collapse: collapse; width: 100%; }
        th, td { text-align: left; padding: .45rem .6rem; border-bottom: 1px solid var(--line);
          vertical-align: top; white-space: nowrap; }
        td.wide { white-space: normal; min-width: 12rem; overflow-wrap: anywhere; }
        td.code { white-space: normal; min-width: 8rem; overflow-wrap: anywhere; }
        td a { display: inline-block; }
        td.links { white-space: normal; min-width: 4.5rem; }
        tr:last-child td { border-bottom: 0; }
        th { font-weight: 600; font-size: .8rem; color: var(--soft); }
        code, td.code { font: 13px/1.5 ui-monospace, monospace; }
        .state { font-weight: 600; }
        .good { color: var(--good); } .warn { color: var(--warn); } .bad { color: var(--bad); }
        footer { margin-top: 2rem; font-size: .85rem; }

        """
}
