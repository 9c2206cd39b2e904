/// The style sheet; served by itself so that the content security policy can forbid styles within a page.
enum PageStyle {
    static let css = colours + base + sections + narrow

    private static let colours = """
        :root { color-scheme: light dark; --ink: #16181d; --soft: #59606e; --line: #e1e4e9; --back: #f5f6f8;
          --card: #ffffff; --field: #f5f6f8; --good: #23743a; --warn: #9a4d00; --bad: #c0262c; --accent: #3350c4;
          --good-fill: #2b8a3e; --warn-fill: #b45a00; --bad-fill: #d6333a; --accent-fill: #3b5bdb;
          --good-back: #e5f4e9; --warn-back: #fdf0dd; --bad-back: #fdeaea; --area: #e6eafb;
          --life: #9fd0ab; --life-pale: #cfe8d5; --missing: #f6d5d7; }
        @media (prefers-color-scheme: dark) {
          :root { --ink: #eceef2; --soft: #a2a9b6; --line: #2a2e37; --back: #0f1216; --card: #181b22; --field: #0f1216;
            --good: #5fd07d; --warn: #ffb057; --bad: #ff8f8f; --accent: #93a8ff;
            --good-fill: #51cf66; --warn-fill: #ffa94d; --bad-fill: #ff8787; --accent-fill: #748ffc;
            --good-back: #14301c; --warn-back: #35240c; --bad-back: #3a1a1c; --area: #222a45;
            --life: #2f7040; --life-pale: #1f4a2a; --missing: #552b2f; } }

        """

    private static let base = """
        * { box-sizing: border-box; }
        [hidden] { display: none !important; }
        html { scroll-padding-top: 1rem; }
        body { margin: 0 auto; max-width: 76rem; padding: 1.25rem 1.25rem 3rem; background: var(--back); color: var(--ink);
          font: 15px/1.45 system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif;
          font-variant-numeric: tabular-nums; }
        body.narrow { max-width: 40rem; }
        h1, h2, h3, p, dl, dd, ol, ul { margin: 0; padding: 0; }
        h1 { font-size: 1.25rem; }
        h2 { font-size: .8125rem; letter-spacing: .06em; text-transform: uppercase; color: var(--soft);
          margin: 2rem 0 .6rem; }
        h3 { font-size: 1rem; overflow-wrap: anywhere; }
        body.narrow h1 { margin-bottom: 1rem; } body.narrow p { margin: .75rem 0; }
        body.narrow label input { margin-top: .35rem; }
        a { color: var(--accent); }
        code, pre, .code { font: .875em/1.45 ui-monospace, "SFMono-Regular", "DejaVu Sans Mono", monospace; }
        .soft, footer { color: var(--soft); }
        .good { color: var(--good); } .warn { color: var(--warn); } .bad { color: var(--bad); }
        .spoken { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
          white-space: nowrap; }
        .panel { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1rem; }
        button, .button, input, select { font: inherit; color: inherit; background: var(--card);
          border: 1px solid var(--line); border-radius: 8px; padding: .35rem .8rem; min-height: 2.25rem; }
        button, .button, select { cursor: pointer; text-decoration: none; }
        .button { display: inline-flex; align-items: center; color: var(--ink); }
        button:hover, .button:hover, select:hover, summary:hover { background: var(--field); }
        .primary { background: var(--accent); border-color: var(--accent); color: var(--card); font-weight: 600; }
        .primary:hover { background: var(--accent-fill); }
        .approval { margin: 1rem 0; } .approval h2 { margin: 0 0 .6rem; text-transform: none; letter-spacing: 0;
          color: var(--ink); overflow-wrap: anywhere; }
        .approval pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .75rem 0; }
        .danger { background: var(--bad); border-color: var(--bad); color: var(--card); font-weight: 600; }
        :focus-visible { outline: 2px solid var(--accent-fill); outline-offset: 2px; }
        html:not(.scripted) .script, html.scripted .plain-only { display: none !important; }
        .link { border: 0; background: none; min-height: 0; padding: 0 0 0 .4rem; color: var(--accent);
          text-decoration: underline; }
        .command { display: inline-flex; align-items: center; gap: .25rem; max-width: 100%; background: var(--field);
          border: 1px solid var(--line); border-radius: 8px; padding-left: .7rem; }
        .command code { padding: .4rem 0; overflow-wrap: break-word; min-width: 0; user-select: all; }
        .command .copy { border: 0; flex: none; white-space: nowrap; background: none; font-size: .8125rem; color: var(--accent); }
        html:not(.scripted) .command { padding-right: .7rem; }
        dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .35rem 1rem; align-items: baseline; }
        dt { color: var(--soft); } dd { overflow-wrap: anywhere; }
        .actions { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; }
        dialog { border: 1px solid var(--line); border-radius: 12px; background: var(--card); color: var(--ink);
          max-width: 30rem; width: calc(100% - 2rem); padding: 1.25rem; }
        dialog::backdrop { background: rgb(0 0 0 / .45); }
        dialog h2 { margin: 0 0 .5rem; text-transform: none; letter-spacing: 0; font-size: 1.05rem; color: var(--ink); }
        dialog p { margin: .5rem 0; } dialog input { width: 100%; } dialog .actions { justify-content: flex-end; }
        #notice { position: fixed; left: 50%; bottom: 1rem; transform: translateX(-50%); max-width: calc(100% - 2rem);
          background: var(--ink); color: var(--back); border-radius: 8px; padding: .6rem 1rem; z-index: 1; }

        """

    private static let sections = """
        header { display: flex; flex-wrap: wrap; align-items: center; gap: .5rem .9rem; margin-bottom: 1rem; }
        .pill { font-weight: 600; border-radius: 99px; padding: .15rem .75rem; background: var(--field); }
        .pill.good { background: var(--good-back); } .pill.warn { background: var(--warn-back); }
        .pill.bad { background: var(--bad-back); }
        .about { margin-left: auto; color: var(--soft); font-size: .875rem; }
        .explain { display: flex; gap: .5rem; }
        .explain input { flex: 1; min-width: 0; min-height: 2.5rem; padding: .5rem .9rem;
          font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
        .explain .token { flex: 0 1 10rem; }
        .explain button { min-height: 2.5rem; font-weight: 600; }
        .explain input::placeholder { color: var(--soft); opacity: 1;
          font-family: system-ui, "Segoe UI", "Noto Sans", sans-serif; }
        #answer > * { margin-top: .5rem; } #answer pre { overflow-x: auto; margin-bottom: 0; }
        .need { display: flex; flex-wrap: wrap; align-items: center; gap: .75rem 1.5rem; background: var(--card);
          border: 1px solid var(--line); border-left: 4px solid var(--warn-fill); border-radius: 12px;
          padding: .9rem 1rem; margin-top: .6rem; }
        .need.warn, .need.bad { color: var(--ink); }
        .need.bad { border-left-color: var(--bad-fill); }
        .need > div:first-child { flex: 1 1 24rem; min-width: 0; }
        .need p { color: var(--soft); overflow-wrap: anywhere; } .need strong { color: var(--ink); }
        .dot { display: inline-block; width: .55rem; height: .55rem; border-radius: 50%; background: var(--soft);
          margin-right: .6rem; flex: none; }
        .dot.good { background: var(--good-fill); } .dot.warn { background: var(--warn-fill); }
        .dot.bad { background: var(--bad-fill); } .dot.accent { background: var(--accent-fill); }
        .table { padding: .25rem 0; }
        .row { display: grid; align-items: center; gap: 0 1rem; padding: .55rem 1rem;
          grid-template-columns: minmax(0, 1.5fr) minmax(0, 1.2fr) minmax(0, 1.1fr) 4.5rem 4.5rem 8.5rem 7.5rem; }
        .titles { font-size: .8125rem; font-weight: 600; color: var(--soft); }
        .number { text-align: right; white-space: nowrap; }
        .route { border-top: 1px solid var(--line); }
        summary { cursor: pointer; list-style: none; }
        summary::-webkit-details-marker { display: none; }
        .route .name { display: grid; grid-template-columns: max-content minmax(0, 1fr); align-items: baseline; }
        .route .text, .upstream, .credential { overflow-wrap: anywhere; }
        .note { grid-column: 2; font-size: .8125rem; color: var(--warn); overflow-wrap: anywhere; }
        .note > span { display: inline-block; }
        .inside { padding: .25rem 1rem 1rem 2.2rem; }
        .inside dt { line-height: 1.9; }
        .hour { display: block; width: 7.5rem; height: 1.9rem; }
        .hour path { fill: none; stroke-width: 1.3; vector-effect: non-scaling-stroke; }
        .hour .area { fill: var(--area); } .hour .line { stroke: var(--accent-fill); }
        .hour .errors { stroke: var(--bad-fill); stroke-width: 4; } .rest { stroke: var(--line); fill: none; }
        .charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: .75rem; }
        .graph { margin: 0; padding: .9rem 1rem; min-width: 0; }
        .graph figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; }
        .graph figcaption .soft, .legend { font-size: .875rem; }
        .plot { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .25rem .6rem; margin: .8rem 0 .4rem;
          color: var(--soft); font-size: .75rem; line-height: 1; }
        .plot svg { display: block; width: 100%; height: 7.5rem; }
        .scale { display: flex; flex-direction: column; justify-content: space-between; text-align: right;
          margin: -.375rem 0; }
        .times { grid-column: 2; display: flex; justify-content: space-between; padding-top: .25rem; }
        .legend { display: flex; flex-wrap: wrap; gap: 0 1rem; } .legend .dot { margin-right: .4rem; }
        .plot path, .strip path { vector-effect: non-scaling-stroke; }
        .plot .curve { fill: none; stroke-width: 1.6; stroke-linecap: round; stroke-linejoin: round; }
        .curve.good { stroke: var(--good-fill); } .curve.accent { stroke: var(--accent-fill); }
        .curve.warn { stroke: var(--warn-fill); } .plot .bar.good { fill: var(--life); }
        .graph:first-child .legend .dot.good { background: var(--life); }
        .line { display: grid; align-items: center; gap: .2rem 1rem; padding: .6rem 1rem;
          grid-template-columns: minmax(0, 1.3fr) minmax(0, 3fr) minmax(0, 1.4fr) minmax(0, 1.2fr); }
        .axis { display: flex; justify-content: space-between; font-weight: 400; }
        .entry { border-top: 1px solid var(--line); } .table > .none { padding: .6rem 1rem; }
        .entry[open] > summary { background: var(--field); }
        .entry .name strong, .entry .word { display: block; }
        .entry .name, .state, .next { overflow-wrap: break-word; }
        .line .soft { font-size: .875rem; } .word.plain { color: var(--soft); }
        .strip { display: block; width: 100%; height: 1.75rem; }
        .strip .odd { fill: var(--life); } .strip .even { fill: var(--life-pale); }
        .strip .missing { fill: var(--missing); } .strip .locked { fill: var(--soft); }
        .strip .mark { fill: none; stroke-width: 2; } .mark.bad { stroke: var(--bad-fill); }
        .mark.warn { stroke: var(--warn-fill); } .mark.accent { stroke: var(--accent-fill); }
        .mark.plain { stroke: var(--ink); }
        .entry .inside { padding: .75rem 1rem 1rem; } .entry .inside > * + * { margin-top: .7rem; }
        .entry .inside > p { overflow-wrap: anywhere; }
        .columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: 1rem 2rem;
          font-size: .875rem; align-items: start; }
        .columns .events { list-style: none; } .columns .events li { overflow-wrap: anywhere; padding: .15rem 0; }
        .who:empty { display: none; } .who { font-size: .875rem; } .who > p:first-child { font-weight: 600; }
        .who table { width: 100%; border-collapse: collapse; margin-top: .3rem; }
        .who th { color: var(--soft); font-weight: 600; } .who tr { border-bottom: 1px solid var(--line); }
        .who th, .who td { text-align: right; padding: .3rem 0 .3rem .75rem; }
        .who :is(th, td):first-child { text-align: left; padding-left: 0; width: 40%; overflow-wrap: break-word; }
        .entry .actions button, .entry .actions .button { font-size: .875rem; min-height: 2rem;
          padding: .2rem .7rem; }
        svg .good { fill: var(--good-fill); } svg .warn { fill: var(--warn-fill); } svg .bad { fill: var(--bad-fill); }
        svg .accent { fill: var(--accent-fill); } svg .plain { fill: var(--soft); }
        .filters, .filters nav { display: flex; flex-wrap: wrap; gap: .4rem; align-items: center; }
        .filters label { min-width: 0; max-width: 100%; } .filters select { max-width: min(16rem, 100%); }
        .filters { margin-bottom: .6rem; } #live form.filters, main > form.filters { margin-top: .75rem; } #pause { margin-left: auto; }
        .chip, #pause { border-radius: 99px; font-size: .875rem; min-height: 2rem; padding: .2rem .8rem;
          border: 1px solid var(--line); background: var(--card); color: var(--soft); text-decoration: none;
          display: inline-flex; align-items: center; max-width: 100%; }
        .chip[aria-current] { color: var(--ink); border-color: var(--accent-fill); font-weight: 600; }
        #pause[aria-pressed=true] { color: var(--ink); border-color: var(--warn-fill); }
        #events { list-style: none; padding: .25rem 0; }
        #events:empty { display: none; }
        #events li { display: grid; gap: 0 1rem; padding: .4rem 1rem; align-items: baseline;
          grid-template-columns: 6.5rem 11rem minmax(0, 1fr) minmax(0, .6fr) minmax(0, 2.6fr) minmax(0, 6.5rem); }
        #events .event { display: flex; align-items: baseline; }
        #events li + li { border-top: 1px solid var(--line); }
        #events time, #events .request { font: .8125rem/1.4 ui-monospace, "DejaVu Sans Mono", monospace; }
        #events time { color: var(--soft); }
        #events span, #events strong { overflow-wrap: anywhere; }
        #events .request a { display: block; max-width: 9rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
        #events li.fresh { animation: fresh 1.5s ease-out; }
        @keyframes fresh { from { background: var(--area); } }
        @media (prefers-reduced-motion: reduce) { #events li.fresh { animation: none; } }
        footer { margin-top: 2.5rem; font-size: .875rem; } footer p { margin: .4rem 0; }

        """

    private static let narrow = """
        @media (max-width: 60rem) {
          .row { grid-template-columns: minmax(0, 1fr) 3.75rem 4rem; gap: .1rem .5rem; align-items: baseline; }
          .table { padding: 0; } .titles + .route, .titles + .entry { border-top: 0; }
          .titles + .entry > summary { border-radius: 11px 11px 0 0; }
          .titles, .upstream, .credential, .latency { display: none; }
          .chart { grid-column: 1 / -1; } .route .hour { width: 100%; height: 1.6rem; }
          .route .name { grid-row: 1; }
          #events li { grid-template-columns: minmax(0, 1fr) max-content; gap: .1rem .75rem; }
          #events time { grid-area: 1 / 2; } #events .event { grid-area: 1 / 1; }
          #events .of { grid-area: 2 / 1; padding-left: 1.15rem; }
          #events .client { display: none; } #events .request:not(:has(a)) { display: none; }
          #events .request { grid-area: 2 / 2; }
          #events .what { grid-area: 3 / 1 / 4 / -1; padding-left: 1.15rem; color: var(--soft); } }
        @media (max-width: 48rem) {
          .line { grid-template-columns: minmax(0, 1.5fr) minmax(0, 1fr); align-items: baseline; }
          .line .strip { grid-column: 1 / -1; grid-row: 2; }
          .line .state { grid-column: 1 / -1; grid-row: 3; } .line .next { grid-area: 1 / 2; text-align: right; }
          .entry .word { display: inline; } }
        @media (max-width: 30rem) {
          body { padding: 1rem .9rem 2rem; }
          .about { margin-left: 0; }
          .explain input::placeholder { font-size: .75rem; }
          #answer pre { white-space: pre-wrap; overflow-wrap: anywhere; }
          .need .actions, .need .command { width: 100%; }
          .need .command { justify-content: space-between; }
          .inside { padding-left: 1rem; } .inside dt { line-height: 1.45; }
          dl { grid-template-columns: minmax(0, 1fr); gap: .1rem; } dd { margin-bottom: .5rem; }
          #pause { margin-left: 0; } }

        """
}
