//! The map as one self-contained HTML page: a treemap, figures of the classes, tables, raw data.

use super::Report;
use super::amounts::{ClassAmounts, PathAmounts};
use super::json::SCHEMA;
use super::parts::{Content, Part, parts};
use super::tables::percent;
use block::{Size, printable};
use daemon::control::statistics::FileClass;
use daemon::units::nanoseconds;
use report::bars::{Bar, Test, bars};
use report::page::{Page, section, side_by_side};
use report::plot::escaped;
use report::treemap::{self, Tile, swatch, treemap};
use report::words::grouped;
use std::borrow::Cow;
use std::fmt::Write;

/// Rows of the table of directories, and paths of each kind in the raw data.
const PATHS_MAX: usize = 50;
/// Bytes of the paths of each kind in the raw data.
const RAW_BYTES_MAX: usize = 64 << 10;
/// Letters of a path in the page. The middle of a longer one is left out.
const LETTERS_MAX: usize = 300;

const STYLE: &str = "
.map { margin-top: .4rem; } .map .path { text-align: left; white-space: normal; overflow-wrap: anywhere;
  min-width: 10rem; padding-left: 2.2rem; }
.map td.path .swatch { margin-left: -1.75rem; }
.map .class { text-align: left; }
";

/// The look of each class: classes of one colour are seldom large together.
const LOOKS: [(&str, usize); treemap::LOOKS] = [
    ("unknown", 0),
    ("databases", 1),
    ("executables", 2),
    ("metadata", 3),
    ("big-media", 4),
    ("pictures", 5),
    ("documents", 6),
    ("free-space", 7),
    ("big-databases", 8),
    ("archives", 9),
    ("directories", 10),
    ("media", 11),
    ("journal", 12),
    ("other", 13),
];

/// Returns the look of a class; that of unknown blocks, if it is of a later version.
fn look(class: &str) -> usize {
    LOOKS.iter().find(|(name, _)| *name == class).map_or(0, |(_, look)| *look)
}

/// Returns a path in letters that are safe to show, without the middle if it is very long.
fn shown(path: &[u8]) -> String {
    let text = printable(&String::from_utf8_lossy(path)).into_owned();
    let letters = text.chars().count();
    if letters <= LETTERS_MAX {
        return text;
    }
    let half = LETTERS_MAX / 2;
    let end: String = text.chars().skip(letters - half).collect();
    text.chars().take(half).chain("...".chars()).collect::<String>() + &end
}

/// Returns the last name of a path, and the directory before it.
fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => (name, "/"),
        Some((directory, name)) => (name, directory),
        None => (path, ""),
    }
}

/// A part of the cached data that is not divided, with its words.
struct Leaf {
    /// The first line of the label, and the second one.
    name: String,
    place: String,
    /// Its description in the table.
    row: String,
    class: String,
    cached_bytes: u64,
    /// Of a file or a directory: bytes on the volume.
    volume_bytes: Option<u64>,
    /// Whether it has several classes.
    is_mixed: bool,
}

impl Leaf {
    fn of(part: &Part<'_>) -> Leaf {
        let of = |name: String, place: String, row: String, on: Option<&PathAmounts>| Leaf {
            name,
            place,
            row,
            class: part.class.to_owned(),
            cached_bytes: part.cached_bytes,
            volume_bytes: on.map(|one| one.cached_bytes + one.uncached_bytes),
            is_mixed: false,
        };
        match part.content {
            Content::File(one) => {
                let path = shown(&one.path);
                let (name, place) = split(&path);
                of(name.to_owned(), place.to_owned(), path.clone(), Some(one))
            }
            Content::Directory(one) => {
                let path = shown(&one.path);
                let (name, place) = split(&path);
                let row = format!("{}/ and all below", path.trim_end_matches('/'));
                let leaf = of(format!("{name}/"), place.to_owned(), row, Some(one));
                Leaf { is_mixed: true, ..leaf }
            }
            Content::Rest(one) => {
                let path = shown(&one.path);
                let row = format!("{path}: smaller files and directories");
                Leaf { is_mixed: true, ..of("smaller files".to_owned(), path, row, None) }
            }
            Content::NoFile(class) => {
                of(class.to_owned(), "in no file".to_owned(), format!("{class}, in no file"), None)
            }
            Content::Small => {
                let row = "small remainders of several directories".to_owned();
                Leaf { is_mixed: true, ..of("small".to_owned(), "several".to_owned(), row, None) }
            }
        }
    }

    /// Returns the class in words.
    fn class(&self) -> Cow<'_, str> {
        match self.is_mixed {
            true => format!("mostly {}", self.class).into(),
            false => self.class.as_str().into(),
        }
    }

    /// Returns the tile of this leaf, which leads to the row with this number.
    fn tile(&self, number: usize) -> Tile {
        let (cached, class) = (Size(self.cached_bytes), self.class());
        let of = self.volume_bytes.map(|bytes| format!(" of {}", Size(bytes))).unwrap_or_default();
        Tile {
            amount: self.cached_bytes as f64,
            label: vec![self.name.clone(), format!("{cached}, {class}"), self.place.clone()],
            title: format!("{}: {cached}{of} in the cache, {class}", self.row),
            look: look(&self.class),
            anchor: format!("t{number}"),
            tiles: Vec::new(),
        }
    }
}

/// Returns the tiles of parts, and adds their leaves.
fn tiles(parts: &[Part<'_>], leaves: &mut Vec<Leaf>) -> Vec<Tile> {
    let tile = |part: &Part<'_>| {
        if !part.parts.is_empty() {
            let tiles = tiles(&part.parts, leaves);
            return Tile { amount: part.cached_bytes as f64, tiles, ..Tile::default() };
        }
        leaves.push(Leaf::of(part));
        let number = leaves.len() - 1;
        leaves[number].tile(number)
    };
    parts.iter().map(tile).collect()
}

impl Report {
    /// Returns the page. Its size is bounded, however many files there are.
    pub(super) fn page(&self) -> String {
        let mut leaves = Vec::new();
        let tiles = tiles(&parts(&self.amounts), &mut leaves);
        let names: Vec<(usize, String)> = self
            .cached_classes()
            .map(|one| (look(&one.class), format!("{} {}", one.class, Size(one.cached_bytes))))
            .collect();
        let mut parts = String::new();
        if !tiles.is_empty() {
            let title = "Cached data by directory and file; areas are bytes, looks are classes";
            parts += &treemap(title, &names, &tiles);
        }
        parts += &side_by_side(&self.figures_of_classes());
        parts += &section("Classes", &self.class_rows());
        parts += &section("Directories with all below them", &self.directory_rows());
        parts += &section("Parts of the drawing", &part_rows(&leaves));
        parts += METHOD;
        let raw = self.json_of(PATHS_MAX, RAW_BYTES_MAX);
        let page = Page {
            title: &format!("Files in the cache: {}", printable(&self.volume)),
            sub: &format!("overdrive volume map; Overdrive {}", env!("CARGO_PKG_VERSION")),
            verdict: &self.sentences().join("\n"),
            style: &format!("{}{STYLE}", treemap::STYLE),
            parts: &parts,
            schema: SCHEMA,
            raw: &serde_json::to_string_pretty(&raw).unwrap_or_default(),
        };
        page.html()
    }

    /// Returns the classes with cached blocks, the most first.
    fn cached_classes(&self) -> impl Iterator<Item = &ClassAmounts> {
        let cached = self.amounts.classes.iter().filter(|one| one.cached_bytes > 0);
        let mut cached: Vec<&ClassAmounts> = cached.collect();
        cached.sort_by_key(|one| std::cmp::Reverse(one.cached_bytes));
        cached.into_iter()
    }

    /// Plots hits and the saved time of the classes that had accesses.
    fn figures_of_classes(&self) -> Vec<String> {
        let classes = self.hints.iter().flat_map(|hints| &hints.classes);
        let accesses = |one: &FileClass| one.hits + one.misses;
        let mut used: Vec<_> = classes.filter(|one| accesses(one) > 0).collect();
        used.sort_by_key(|one| std::cmp::Reverse((one.time_saved_ns, accesses(one))));
        if used.is_empty() {
            return Vec::new();
        }
        let test = |name: &str, value: f64| {
            let bars = vec![Some(Bar { value, interval: None })];
            Test { name: name.to_owned(), bars, published: None }
        };
        let saved = used.iter().filter(|one| one.time_saved_ns > 0);
        let saved = saved.map(|one| test(&one.class, one.time_saved_ns as f64 / 1e9));
        let hits = used.iter().map(|one| {
            let accesses = accesses(one);
            let name = format!("{}, {} accesses", one.class, grouped(accesses));
            test(&name, one.hits as f64 * 100.0 / accesses as f64)
        });
        vec![
            bars("Time saved", "s", &[], &saved.collect::<Vec<_>>()),
            bars("Hits", "% of accesses", &[], &hits.collect::<Vec<_>>()),
        ]
    }

    fn class_rows(&self) -> String {
        let heads = [
            "class",
            "volume",
            "cached",
            "share",
            "not cached",
            "dirty",
            "hits",
            "misses",
            "saved",
        ];
        let mut rows = String::new();
        for one in &self.amounts.classes {
            let figures = self.figures(&one.class);
            let number = |number: Option<u64>| number.map(|it| it.to_string()).unwrap_or_default();
            let cells = [
                Size(one.bytes).to_string(),
                Size(one.cached_bytes).to_string(),
                percent(one.cached_bytes, one.bytes),
                Size(one.bytes.saturating_sub(one.cached_bytes)).to_string(),
                Size(one.dirty_bytes).to_string(),
                number(figures.map(|figures| figures.hits)),
                number(figures.map(|figures| figures.misses)),
                figures.map(|figures| nanoseconds(figures.time_saved_ns)).unwrap_or_default(),
            ];
            let class = format!("{}{}", swatch(look(&one.class)), escaped(&one.class));
            _ = writeln!(rows, "<tr><td class=\"class\">{class}</td>{}</tr>", td(&cells));
        }
        table(&heads, &rows)
    }

    fn directory_rows(&self) -> String {
        let all = &self.amounts.directories;
        let mut rows = String::new();
        for one in all.iter().take(PATHS_MAX) {
            let cells = [
                Size(one.cached_bytes).to_string(),
                percent(one.cached_bytes, one.cached_bytes + one.uncached_bytes),
                Size(one.uncached_bytes).to_string(),
            ];
            let (path, class) = (shown(&one.path), format!("mostly {}", one.class));
            _ = writeln!(rows, "<tr>{}</tr>", path_cells(&one.class, &path, &cells, &class));
        }
        if rows.is_empty() {
            return rows;
        }
        let heads = ["directory", "cached", "share", "not cached", "class"];
        let more = match all.len().saturating_sub(PATHS_MAX) {
            0 => String::new(),
            more => format!("<p class=\"sub\">{more} more: overdrive volume map --json</p>\n"),
        };
        table(&heads, &rows) + &more
    }
}

const METHOD: &str = "<h2>Method</h2>\n<p>The file systems on the volume were read through the \
daemon. Sizes are of whole blocks of 4 KiB; blocks that are only in memory compressed are not \
included. The drawing is a squarified treemap (Bruls, Huizing, van Wijk 2000). The largest \
directories are divided into their files, and smaller files are drawn together. Hits and saved \
time are known by class only; they are estimates since the first map was followed.</p>\n";

/// Returns the table of the drawing's parts, the largest first. Each row is the anchor of a tile.
fn part_rows(leaves: &[Leaf]) -> String {
    let total: u64 = leaves.iter().map(|leaf| leaf.cached_bytes).sum();
    let mut order: Vec<(usize, &Leaf)> = leaves.iter().enumerate().collect();
    order.sort_by_key(|(_, leaf)| std::cmp::Reverse(leaf.cached_bytes));
    let mut rows = String::new();
    for (number, leaf) in order {
        let volume = leaf.volume_bytes;
        let share = volume.map(|volume| percent(leaf.cached_bytes, volume)).unwrap_or_default();
        let cells = [
            Size(leaf.cached_bytes).to_string(),
            percent(leaf.cached_bytes, total),
            volume.map(|volume| Size(volume).to_string()).unwrap_or_default(),
            share,
        ];
        let row = path_cells(&leaf.class, &leaf.row, &cells, &leaf.class());
        _ = writeln!(rows, "<tr id=\"t{number}\">{row}</tr>");
    }
    if rows.is_empty() {
        return rows;
    }
    table(&["part", "cached", "of all", "volume", "share", "class"], &rows)
}

/// Returns the cells of a row about a path: the path, numbers, and the class in words.
fn path_cells(class: &str, path: &str, cells: &[String], words: &str) -> String {
    format!(
        "<td class=\"path\">{}{}</td>{}<td class=\"class\">{}</td>",
        swatch(look(class)),
        escaped(path),
        td(cells),
        escaped(words)
    )
}

fn td(cells: &[String]) -> String {
    cells.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect()
}

/// Returns a table with these heads.
fn table(heads: &[&str], rows: &str) -> String {
    let head = |head: &&str| match *head {
        "class" => "<th class=\"class\">class</th>".to_owned(),
        "directory" | "part" => format!("<th class=\"path\">{head}</th>"),
        _ => format!("<th>{head}</th>"),
    };
    let name = heads.first().unwrap_or(&"");
    let heads: String = heads.iter().map(head).collect();
    // Scrolled by keyboard on a narrow screen.
    format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Table by {name}\">\
         <table class=\"map\">\n<tr>{heads}</tr>\n{rows}</table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::map::examples;
    use serde_json::Value;

    #[test]
    fn the_page_has_a_tile_and_a_row_for_each_part_and_no_text_of_names_as_html() {
        let report = examples::report();
        let page = report.page();
        assert_eq!(
            page.matches("<script").count(),
            2,
            "the data, and the script that saves charts"
        );
        for needs in ["src=", "href=\"h", "url(", "@import", "http:", "https:"] {
            assert!(!page.contains(needs), "{needs}");
        }
        let tiles = page.matches("<a class=\"look").count();
        assert_eq!((tiles, page.matches("<tr id=\"t").count()), (4, 4));
        for number in 0..tiles {
            assert!(page.contains(&format!("href=\"#t{number}\"")), "{number}");
            assert!(page.contains(&format!("<tr id=\"t{number}\">")), "{number}");
        }
        let film = "title=\"/films/\u{fffd}.mp4: 16 MiB of 16 MiB in the cache, other\"";
        assert!(page.contains(film), "{page}");
        assert!(page.contains("/srv/box.mbox: 4 MiB of 8 MiB in the cache, databases"));
        for part in ["Time saved, s", "databases, 1,000 accesses", ">90.0</text>", "<h2>Classes"] {
            assert!(page.contains(part), "{part}");
        }
        let raw = report::page::raw_data(&page).expect("raw data");
        let raw: Value = serde_json::from_str(raw).expect("an object");
        assert_eq!(raw, report.json());
        assert!(!page.contains("a<b>"));
    }

    #[test]
    fn the_size_of_a_page_does_not_grow_with_the_number_of_files() {
        let size = |files| {
            let report = Report { amounts: examples::many(10, files), ..examples::report() };
            report.page().len()
        };
        let (few, many) = (size(50), size(400));
        assert!(many < 300_000 && many < few + few / 5, "{few} {many}");
    }

    #[test]
    fn every_class_has_its_own_look() {
        let mut looks: Vec<usize> = hints::names().iter().map(|class| look(class)).collect();
        looks.sort_unstable();
        assert_eq!(looks, (0..treemap::LOOKS).collect::<Vec<_>>());
    }

    #[test]
    fn the_middle_of_a_very_long_path_is_left_out() {
        let path = [b"/begin/".to_vec(), vec![b'x'; 4000], b"/end".to_vec()].concat();
        let text = shown(&path);
        assert_eq!(text.chars().count(), LETTERS_MAX + 3);
        assert!(text.starts_with("/begin/") && text.ends_with("/end"), "{text}");
        assert_eq!(shown(b"/a\nb"), "/a\\nb");
        assert_eq!((split("/"), split("/a"), split("/a/b")), (("", "/"), ("a", "/"), ("b", "/a")));
    }
}
