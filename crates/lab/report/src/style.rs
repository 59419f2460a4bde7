//! The style of pages: on a phone and on a desk, light and dark, and on paper.

/// The rules of all pages. Colours are defined once for each scheme; paper is always light.
pub(crate) const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6570; --rule: #d8dde3; --paper: #ffffff;
  --one: #0b62c4; --two: #c2410c; --three: #15803d; --four: #7e22ce; --five: #be185d; --six: #946200; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #9aa4af; --rule: #343b43;
  --paper: #14181c; --one: #6db1ff; --two: #fb923c; --three: #4ade80; --four: #c4a1ff; --five: #f783b4;
  --six: #facc15; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 1.5rem auto; padding: 0 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.45rem; line-height: 1.25; margin-bottom: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .4rem; }
.sub { color: var(--soft); margin-top: .2rem; font-size: .9rem; } .verdict { font-size: 1.1rem; white-space: pre-line; }
.plots { display: grid; gap: 1.2rem 1.6rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; min-width: 0; break-inside: avoid; } figure svg { width: 100%; height: auto; display: block; }
figcaption { font-weight: 600; font-size: .92rem; line-height: 1.3; }
.keys { display: flex; flex-wrap: wrap; gap: 0 .9rem; margin: .15rem 0; font-size: .82rem; }
.keys span { display: inline-flex; align-items: center; gap: .35rem; }
.keys svg { width: 1.4rem; height: .7rem; flex: none; }
svg { font: 12.5px system-ui, sans-serif; } svg text { fill: var(--ink); }
svg .tick, svg .name { fill: var(--soft); } svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .axis, svg .mark { stroke: var(--soft); stroke-width: 1; }
svg .dots { stroke-width: 2; stroke-linecap: round; fill: none; opacity: .75; }
svg .line { stroke-width: 1.7; fill: none; stroke-linejoin: round; }
svg .points { stroke-width: 5; stroke-linecap: round; fill: none; }
svg .lead { stroke-width: .8; fill: none; opacity: .7; } svg .d1 { stroke-dasharray: 7 3; }
svg .d2 { stroke-dasharray: 2 3; } svg .bound { stroke: var(--ink); } svg .line.bound { stroke-dasharray: 1 4;
  stroke-linecap: round; stroke-width: 2; }
svg .published { stroke: var(--ink); stroke-width: 1.4; stroke-dasharray: 5 3; fill: none; }
svg .put { stroke: var(--ink); stroke-width: 2.5; fill: none; }
svg .s1 { opacity: .62; } svg .s2 { opacity: .4; } svg .other { opacity: .55; } svg .own { font-weight: 700; }
svg .frame { fill: none; stroke: var(--rule); } svg .cell { font-size: 11.5px; } svg .large { font-size: 21px; font-weight: 600; }
svg .small { font-size: 11px; } svg .tip circle { fill: transparent; stroke: none; }
svg .tip text { visibility: hidden; paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
svg .tip:hover text, svg .tip:focus text { visibility: visible; } svg .tip:focus { outline: none; }
svg .tip:hover circle, svg .tip:focus circle { stroke: var(--ink); stroke-width: 1.5; }
.save { margin: .1rem 0 0; font-size: .78rem; display: flex; gap: .9rem; justify-content: flex-end; }
.save a, .save button { font: inherit; color: var(--soft); background: none; border: 0; padding: .3rem 0;
  min-width: 1.6rem; text-decoration: underline; cursor: pointer; }
:focus-visible { outline: 2px solid var(--one); outline-offset: 2px; }
svg .band { fill: var(--ink); opacity: .12; } svg .whisker { stroke: var(--ink); stroke-width: 1.3; }
svg .c0 { stroke: var(--one); } svg .c1 { stroke: var(--two); } svg .c2 { stroke: var(--three); }
svg .c3 { stroke: var(--four); } svg .c4 { stroke: var(--five); } svg .c5 { stroke: var(--six); }
svg .f0 { fill: var(--one); } svg .f1 { fill: var(--two); } svg .f2 { fill: var(--three); }
svg .f3 { fill: var(--four); } svg .f4 { fill: var(--five); } svg .f5 { fill: var(--six); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; width: 100%; }
.wide.plot svg { min-width: 38rem; }
th, td { padding: .3rem .45rem; border-bottom: 1px solid var(--rule); text-align: right;
  white-space: nowrap; vertical-align: top; } th { color: var(--soft); font-weight: 500; }
.stack .text, .stack tbody th { text-align: left; } .stack tbody th { color: var(--ink); white-space: normal; min-width: 10rem; }
.stack td.text { white-space: normal; } .notes { font-size: .85rem; margin: .4rem 0; padding-left: 1.6rem; }
.better { font-weight: 600; color: var(--three); } .worse { font-weight: 600; color: var(--two); } .unsure { color: var(--soft); }
.facts th { text-align: left; white-space: normal; width: 8.5rem; }
.facts td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
code { font-size: .85em; overflow-wrap: anywhere; } details { margin-top: 2rem; } summary { cursor: pointer; }
details script { display: block; overflow: auto; max-height: 24rem; white-space: pre-wrap;
  overflow-wrap: anywhere; font: .75rem/1.4 ui-monospace, monospace; border: 1px solid var(--rule); padding: .6rem; }
@media screen and (max-width: 44rem) { .stack thead { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); } .stack, .stack tbody { display: block; } .stack tr { display: flex; flex-wrap: wrap;
  gap: .1rem .9rem; padding: .4rem 0; border-bottom: 1px solid var(--rule); } .stack th, .stack td { border: 0; padding: 0;
  text-align: left; white-space: normal; } .stack tbody th { flex: 0 0 100%; font-weight: 600; } .stack td:empty { display: none; }
  .stack td::before { content: attr(data-head) ' '; color: var(--soft); } }
@media print { .save { display: none; } body { max-width: none; margin: 0; padding: 0; font-size: 11pt; } .wide { overflow: visible; }
  .wide.plot svg { min-width: 0; } .plots { grid-template-columns: 1fr 1fr; gap: .8rem 1.2rem; }
  table { font-size: 7pt; } th, td { white-space: normal; padding: .12rem .2rem; overflow-wrap: anywhere; }
  td, th { min-width: 0 !important; } tr { break-inside: avoid; }
  h2 { break-after: avoid; } details { display: none; } }
";
