//! A treemap as part of a page: nested amounts as areas, whose looks show their kinds.
//!
//! Tiles are links to anchors of the page, so they can be reached with the keyboard. Their places
//! are shares of the frame, and labels without room are hidden, so one drawing suits all screens.

mod layout;

pub use layout::{Rectangle, squarified};

use crate::plot::escaped;
use std::fmt::Write;

/// Number of looks of tiles: each has its own texture, and seven colours are used twice.
pub const LOOKS: usize = 14;

/// An amount, or a group of amounts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tile {
    /// The amount; of a group, that of all its tiles.
    pub amount: f64,
    /// The lines of the label; the first one is the name. Lines without room are hidden.
    pub label: Vec<String>,
    /// The full description, shown by a pointer and read by screen readers.
    pub title: String,
    /// The look, below [`LOOKS`].
    pub look: usize,
    /// The anchor in the page to which the tile leads, without `#`.
    pub anchor: String,
    /// The tiles of a group; empty: not a group. Of a group, only the amount is drawn.
    pub tiles: Vec<Tile>,
}

/// Width of the layout's frame in units of its height: between those on a desk and on a phone.
const FRAME_RATIO: f64 = 1.3;
/// Groups deeper than this have no outline.
const OUTLINES_MAX: usize = 3;

/// Additional CSS rules of a page with a treemap.
pub const STYLE: &str = "
.treemap { position: relative; aspect-ratio: 1.6; overflow: hidden; margin: .3rem 0 1.5rem;
  border: 1px solid var(--soft); }
.treemap a { position: absolute; display: block; overflow: hidden; container-type: size; color: var(--ink);
  text-decoration: none; font-size: .75rem; line-height: 1.25; border: 1px solid var(--paper); }
.treemap a:hover, .treemap a:focus-visible { outline: 3px solid var(--ink); outline-offset: -3px; }
.treemap i { position: absolute; pointer-events: none; border: 1px solid var(--ink); }
.treemap .o0 { border-width: 2px; } .treemap .o2 { border-style: dotted; }
.treemap span { display: block; width: fit-content; max-width: 100%; padding: 0 .2rem; overflow: hidden;
  white-space: nowrap; text-overflow: ellipsis;
  background: color-mix(in srgb, var(--paper) 82%, transparent); }
.treemap span:first-child { font-weight: 600; }
@container (width < 4rem) or (height < 1.1rem) { .treemap span { display: none; } }
@container (width < 6rem) or (height < 2.2rem) { .treemap span:nth-child(n+2) { display: none; } }
@container (width < 6rem) or (height < 3.3rem) { .treemap span:nth-child(n+3) { display: none; } }
.swatch { display: inline-block; width: 1.4rem; height: .9rem; flex: none; vertical-align: -.1rem;
  border: 1px solid var(--soft); margin-right: .35rem; }
.look { --line: 1px; --gap: 7px; --texture: none; --thread: color-mix(in srgb, var(--hue) 60%, var(--paper));
  background-image: var(--texture); background-color: color-mix(in srgb, var(--hue) 24%, var(--paper));
  -webkit-print-color-adjust: exact; print-color-adjust: exact; }
.h0 { --hue: var(--soft); } .h1 { --hue: var(--one); } .h2 { --hue: var(--two); } .h3 { --hue: var(--three); }
.h4 { --hue: var(--four); } .h5 { --hue: var(--five); } .h6 { --hue: var(--six); }
.h1, .h2, .h3, .h4 { --stripes: transparent 0 var(--gap), var(--thread) 0 calc(var(--gap) + var(--line)); }
.h1 { --texture: repeating-linear-gradient(45deg, var(--stripes)); }
.h2 { --texture: repeating-linear-gradient(-45deg, var(--stripes)); }
.h3 { --texture: repeating-linear-gradient(0deg, var(--stripes)); }
.h4 { --texture: repeating-linear-gradient(90deg, var(--stripes)); }
.h5 { --texture: radial-gradient(var(--thread) calc(var(--line) + .4px), transparent 0); background-size: 8px 8px; }
.h6 { --stripes: transparent 0 var(--gap), var(--thread) 0 calc(var(--gap) + var(--line));
  --texture: repeating-linear-gradient(45deg, var(--stripes)), repeating-linear-gradient(-45deg, var(--stripes)); }
.strong { --line: 2.5px; --gap: 4px; }
.strong.h0 { background-color: color-mix(in srgb, var(--hue) 55%, var(--paper)); }
:target { outline: 2px solid var(--one); outline-offset: -2px; }
@media (max-width: 40rem) { .treemap { aspect-ratio: 1; } }
@media print { .treemap, .look { break-inside: avoid; } }
";

/// Returns the CSS classes of a look.
fn classes(look: usize) -> String {
    let (hue, strong) = (look % (LOOKS / 2), look >= LOOKS / 2);
    format!("look h{hue}{}", if strong { " strong" } else { "" })
}

/// Returns a sample of a look, for a legend or a table.
pub fn swatch(look: usize) -> String {
    format!("<i class=\"swatch {}\" aria-hidden=\"true\"></i>", classes(look))
}

/// Returns a treemap as an element of a page, with the names of the looks above it. The page needs
/// [`STYLE`].
pub fn treemap(title: &str, names: &[(usize, String)], tiles: &[Tile]) -> String {
    let title = escaped(title);
    let key = |(look, name): &(usize, String)| {
        format!("<span>{}{}</span>\n", swatch(*look), escaped(name))
    };
    let keys: String = names.iter().map(key).collect();
    let mut drawn = String::new();
    let frame = Rectangle { left: 0.0, top: 0.0, width: FRAME_RATIO, height: 1.0 };
    draw(&mut drawn, tiles, frame, 0);
    format!(
        "<figure>\n<figcaption>{title}</figcaption>\n<p class=\"keys\">{keys}</p>\n\
         <div class=\"treemap\" role=\"group\" aria-label=\"{title}\">\n{drawn}</div>\n</figure>\n"
    )
}

/// Draws tiles, the largest first, and the outlines of groups behind their tiles.
fn draw(into: &mut String, tiles: &[Tile], within: Rectangle, depth: usize) {
    let amounts: Vec<f64> = tiles.iter().map(|tile| tile.amount).collect();
    for (tile, place) in tiles.iter().zip(squarified(&amounts, within)) {
        if tile.tiles.is_empty() {
            write_tile(into, tile, place);
            continue;
        }
        // A group that fills its own group needs no outline of its own.
        let is_alone = tiles.len() == 1;
        draw(into, &tile.tiles, place, depth + usize::from(!is_alone));
        if !is_alone && depth < OUTLINES_MAX {
            _ = writeln!(into, "<i class=\"o{depth}\" style=\"{}\"></i>", style(place));
        }
    }
}

fn write_tile(into: &mut String, tile: &Tile, place: Rectangle) {
    let label: String =
        tile.label.iter().map(|line| format!("<span>{}</span>", escaped(line))).collect();
    _ = writeln!(
        into,
        "<a class=\"{}\" href=\"#{}\" title=\"{}\" style=\"{}\">{label}</a>",
        classes(tile.look),
        escaped(&tile.anchor),
        escaped(&tile.title),
        style(place)
    );
}

/// Returns a place as shares of the frame.
fn style(place: Rectangle) -> String {
    let across = |length: f64| length / FRAME_RATIO * 100.0;
    format!(
        "left:{:.3}%;top:{:.3}%;width:{:.3}%;height:{:.3}%",
        across(place.left),
        place.top * 100.0,
        across(place.width),
        place.height * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(name: &str, amount: f64, look: usize) -> Tile {
        Tile {
            amount,
            label: vec![name.to_owned(), "second".to_owned()],
            title: format!("{name} in full"),
            look,
            anchor: format!("t{look}"),
            tiles: Vec::new(),
        }
    }

    #[test]
    fn tiles_are_links_with_places_titles_and_looks() {
        let group = Tile {
            amount: 3.0,
            tiles: vec![tile("a", 2.0, 1), tile("<b>", 1.0, 8)],
            ..Tile::default()
        };
        let names = [(1, "one & all".to_owned())];
        let html = treemap("By \"size\"", &names, &[group, tile("c", 1.0, 0)]);
        assert!(html.contains(">By &quot;size&quot;</figcaption>"), "{html}");
        assert!(html.contains("class=\"swatch look h1\" aria-hidden=\"true\"></i>one &amp; all<"));
        // The group has three quarters of the width, and its first tile two thirds of the height.
        let first = "<a class=\"look h1\" href=\"#t1\" title=\"a in full\" \
                     style=\"left:0.000%;top:0.000%;width:75.000%;height:66.667%\">\
                     <span>a</span><span>second</span></a>";
        assert!(html.contains(first), "{html}");
        assert!(html.contains("class=\"look h1 strong\" href=\"#t8\" title=\"&lt;b&gt; in full\""));
        let outline =
            "<i class=\"o0\" style=\"left:0.000%;top:0.000%;width:75.000%;height:100.000%\">";
        assert!(html.contains(outline), "{html}");
        assert_eq!(html.matches("<a ").count(), 3);
    }

    #[test]
    fn a_group_alone_has_no_outline() {
        let group = Tile { amount: 1.0, tiles: vec![tile("a", 1.0, 0)], ..Tile::default() };
        let html = treemap("x", &[], &[group]);
        assert!(!html.contains("<i class=\"o") && html.contains("height:100.000%"), "{html}");
    }
}
