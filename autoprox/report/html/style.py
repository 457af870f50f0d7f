"""How pages look: light and dark, on a desk, on a phone and on paper."""

CSS = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1c2026; --soft: #5b6470;
  --rule: #d9dde3; --shade: #f4f6f8; --a: #1f66c1; --b: #c2570c; --c: #6b3fa0; --d: #1e7d4f; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171b; --ink: #e6e9ed; --soft: #9aa4b0; --rule: #343a42; --shade: #1d2126;
    --a: #6fabf5; --b: #f29b5c; --c: #bd9bec; --d: #66c795; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 1.2rem 1rem 3rem; background: var(--ground);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; border-bottom: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 1rem 0 .3rem; }
article + article { margin-top: 4rem; border-top: 3px solid var(--rule); padding-top: 1rem; }
.scroll { overflow-x: auto; max-width: 100%; margin: .4rem 0; }
table { border-collapse: collapse; font-size: .86rem; overflow-wrap: normal;
  font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem .2rem 0; text-align: right; vertical-align: top; }
td { white-space: pre; }
th { white-space: pre-line; }
th:first-child, td:first-child, .facts td { text-align: left; }
td.long { white-space: pre-wrap; min-width: 13rem; word-break: break-all; text-align: left; }
thead th { border-bottom: 1px solid var(--soft); vertical-align: bottom; }
tbody tr { border-bottom: 1px solid var(--rule); }
.facts th { color: var(--soft); font-weight: 500; white-space: nowrap; }
.facts td { overflow-wrap: anywhere; white-space: pre-wrap; }
pre { white-space: pre-wrap; background: var(--shade); padding: .6rem .8rem; margin: .5rem 0;
  font-size: .82rem; border-radius: 4px; }
.note, figcaption, summary { color: var(--soft); }
.note { border-left: 3px solid var(--rule); padding-left: .7rem; }
.formula math { font-size: 1.25rem; margin: .4rem 0; text-align: left;
  math-style: normal; display: block math; width: max-content; }
.plots { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(290px, 1fr)); }
figure { margin: 0; max-width: 480px; break-inside: avoid; }
.wide { max-width: none; }
figcaption { font-size: .84rem; display: flex; flex-wrap: wrap; gap: 0 .9rem; }
svg { max-width: 100%; height: auto; display: block; }
.scroll svg { max-width: none; }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif; }
.grid { stroke: var(--rule); }
.s0 { --own: var(--a); } .s1 { --own: var(--b); } .s2 { --own: var(--c); } .s3 { --own: var(--d); }
.points circle { fill: var(--own); fill-opacity: .65; }
.ring circle { fill: none; stroke: var(--own); stroke-width: 2.5; }
.line path, .steps path { fill: none; stroke: var(--own); stroke-width: 1.8; }
.line circle, .steps circle { fill: var(--own); }
.cloud { stroke: var(--own); stroke-width: 3; stroke-linecap: round; stroke-opacity: .35; }
.key { display: inline-block; width: .7em; height: .7em; border-radius: 50%; margin-right: .35em;
  background: var(--own); }
.positive { fill: #1f66c1; } .negative { fill: #c2570c; }
svg .strong { fill: #fff; }
.branch { stroke: var(--soft); }
.node { fill: var(--shade); stroke: var(--soft); }
.bar { fill: var(--a); fill-opacity: .75; }
@media print { body { max-width: none; font-size: 11px; }
  details > *, details::details-content { display: block; content-visibility: visible; }
  .scroll { overflow: visible; } .formula math { font-size: .8rem; } h2 { break-after: avoid; } }
"""
