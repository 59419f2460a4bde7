//! Plots as SVG, with the caption and the names of the curves as text around it.

use crate::axis::Axis;
use crate::direction::{Direction, direction};
use crate::figure::{Csv, Figure};
use std::fmt::Write;

pub use crate::html::escaped;

/// Size of a plot that is shown next to others; on a phone a unit is nearly a pixel.
const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 270.0;
/// Size of a plot with names next to its curves.
const WIDTH_BESIDE: f64 = 760.0;
const HEIGHT_BESIDE: f64 = 300.0;
/// Height if the number of names next to the curves needs it.
const TALL: f64 = 440.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// How points are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// One dot each: scatter.
    Dots,
    /// Joined.
    Line,
    /// Joined, with a dot at each: for few points.
    Marked,
}

/// The position of the curves' names, if there are several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// In rows above the plot.
    Above,
    /// Each at the right end of its curve.
    Beside,
}

/// A curve.
pub struct Curve<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its points, from left to right: horizontal, vertical.
    pub points: Vec<(f64, f64)>,
    /// Whether it is an upper bound for the others: it has the colour of text, and is dotted.
    pub is_bound: bool,
    /// The number of its colour. None: by its position among the curves.
    pub colour: Option<usize>,
    /// Maximum horizontal distance of two points that are joined by a line.
    pub joined_within: f64,
}

impl<'a> Curve<'a> {
    /// Returns a curve that is no bound.
    pub fn new(name: &'a str, points: Vec<(f64, f64)>) -> Curve<'a> {
        Curve { name, points, is_bound: false, colour: None, joined_within: f64::INFINITY }
    }

    /// Returns a curve in the colour of its direction, if its name has one.
    pub fn by_direction(name: &'a str, points: Vec<(f64, f64)>) -> Curve<'a> {
        let colour = direction(name).map(Direction::colour);
        Curve { colour, ..Curve::new(name, points) }
    }
}

/// A value, or a range, that is drawn across the whole plot.
#[derive(Clone, PartialEq, Debug)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// Its lower end.
    pub low: f64,
    /// Its upper end, possibly the same.
    pub high: f64,
}

/// A plot.
pub struct Plot<'a> {
    /// Its subject.
    pub title: String,
    /// The name and unit of the horizontal axis.
    pub along: String,
    /// The name and unit of the vertical axis.
    pub up: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// How points are drawn.
    pub style: Style,
    /// The position of the curves' names.
    pub names: Names,
    /// The curves.
    pub curves: Vec<Curve<'a>>,
    /// Values that were published.
    pub levels: Vec<Level>,
}

/// Number of colours; further curves are dashed.
pub(crate) const COLOURS: usize = 6;
/// Width for the names next to the curves, and the minimum distance between two names.
const BESIDE: f64 = 110.0;
const APART: f64 = 13.0;
/// Maximum number of points of a curve that show their values.
const TIPS_MAX: usize = 12;

impl Plot<'_> {
    fn across(&self, value: f64) -> f64 {
        LEFT + self.x.position(value) * (self.right() - LEFT)
    }

    fn width(&self) -> f64 {
        if self.names == Names::Beside { WIDTH_BESIDE } else { WIDTH }
    }

    /// Returns the right edge of the frame.
    fn right(&self) -> f64 {
        self.width() - if self.names == Names::Beside { BESIDE } else { RIGHT }
    }

    /// Values outside of the axis are drawn at its end.
    fn height(&self, value: f64) -> f64 {
        self.bottom() - self.y.position(value).clamp(0.0, 1.0) * (self.bottom() - TOP)
    }

    /// Returns the height with everything below the frame.
    fn whole_height(&self) -> f64 {
        match self.names {
            Names::Beside if self.curves.len() > COLOURS => TALL,
            Names::Beside => HEIGHT_BESIDE,
            Names::Above => HEIGHT,
        }
    }

    /// Returns the lower edge of the frame.
    fn bottom(&self) -> f64 {
        self.whole_height() - BOTTOM
    }

    /// Returns the plot as an element of a page: its caption, the names of its curves, and the
    /// drawing.
    pub fn figure(&self) -> String {
        self.framed(true)
    }

    /// Returns the plot without the CSV of its points: a page that has the figures elsewhere stays
    /// small.
    pub fn figure_without_csv(&self) -> String {
        self.framed(false)
    }

    fn framed(&self, has_csv: bool) -> String {
        let csv = has_csv.then(|| self.csv());
        let figure = Figure {
            title: &self.title,
            keys: &self.keys(),
            is_wide: self.names == Names::Beside,
            svg: &self.svg(),
            csv: csv.as_ref(),
        };
        figure.html()
    }

    /// Returns the figures of the points inside the frame.
    fn csv(&self) -> Csv {
        let has_names = self.curves.len() > 1;
        let (along, up) = (self.x.head(&self.along), self.y.head(&self.up));
        let heads = ["curve", &along, &up];
        let mut csv = Csv::new(&heads[usize::from(!has_names)..]);
        for curve in &self.curves {
            for (x, y) in self.seen(curve) {
                let name = has_names.then(|| curve.name.to_owned());
                csv.line(name.into_iter().chain([self.x.plain(*x), self.y.plain(*y)]));
            }
        }
        csv
    }

    /// Returns the drawing alone.
    fn svg(&self) -> String {
        let mut svg = format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"group\" aria-label=\"{}\">\n",
            self.width(),
            self.whole_height(),
            escaped(&self.title)
        );
        self.frame(&mut svg);
        self.levels.iter().for_each(|level| self.level(&mut svg, level));
        for (number, curve) in self.curves.iter().enumerate() {
            match self.style {
                Style::Dots => self.points(&mut svg, number, curve, "dots"),
                Style::Line => self.line(&mut svg, number, curve),
                Style::Marked => {
                    self.line(&mut svg, number, curve);
                    self.points(&mut svg, number, curve, "points");
                }
            }
        }
        if self.names == Names::Beside {
            self.names_beside(&mut svg);
        }
        self.curves.iter().for_each(|curve| self.tips(&mut svg, curve));
        svg.push_str("</svg>\n");
        svg
    }

    /// Draws the grid, the ticks and the names of the axes.
    fn frame(&self, svg: &mut String) {
        let (right, bottom) = (self.right(), self.bottom());
        for tick in self.y.ticks() {
            let y = self.height(tick);
            _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                self.y.word(tick)
            );
        }
        let words: Vec<(f64, String)> =
            self.x.ticks().iter().map(|tick| (self.across(*tick), self.x.word(*tick))).collect();
        for (number, (x, word)) in words.iter().enumerate() {
            _ = write!(
                svg,
                "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{:.1}\"/>",
                bottom + 4.0
            );
            if number.is_multiple_of(every(&words)) {
                _ = write!(
                    svg,
                    "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{word}</text>",
                    x.min(self.width() - word.len() as f64 * LETTER / 2.0),
                    bottom + 17.0,
                );
            }
            svg.push('\n');
        }
        _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"name\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"name\" text-anchor=\"middle\" transform=\"translate(13 {:.1}) rotate(-90)\">{}</text>",
            (LEFT + right) / 2.0,
            self.whole_height() - 7.0,
            escaped(&self.along),
            (TOP + bottom) / 2.0,
            escaped(&self.up),
        );
    }

    /// Draws a line at a value, or a band over a range.
    fn level(&self, svg: &mut String, level: &Level) {
        let (right, low, high) = (self.right(), self.height(level.low), self.height(level.high));
        if low > high {
            _ = writeln!(
                svg,
                "<rect class=\"band\" x=\"{LEFT}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                right - LEFT,
                low - high
            );
        }
        for y in if low > high { vec![low, high] } else { vec![low] } {
            _ = writeln!(svg, "<path class=\"published\" d=\"M{LEFT} {y:.1}H{right}\"/>");
        }
    }

    /// Returns the points inside the frame.
    fn seen<'b>(&self, curve: &'b Curve<'_>) -> impl Iterator<Item = &'b (f64, f64)> {
        let x = self.x;
        curve.points.iter().filter(move |(along, _)| (x.low..=x.high).contains(along))
    }

    fn points(&self, svg: &mut String, number: usize, curve: &Curve<'_>, class: &str) {
        _ = write!(svg, "<path class=\"{class} {}\" d=\"", colour(number, curve));
        for (x, y) in self.seen(curve) {
            _ = write!(svg, "M{:.1} {:.1}h0", self.across(*x), self.height(*y));
        }
        svg.push_str("\"/>\n");
    }

    /// Adds the values of some points, which are shown where the pointer or the keyboard's focus
    /// is.
    fn tips(&self, svg: &mut String, curve: &Curve<'_>) {
        let seen: Vec<&(f64, f64)> = self.seen(curve).collect();
        let every = seen.len().div_ceil(TIPS_MAX).max(1);
        // From the middle of each part: the first point of a step belongs to the one before.
        for (x, y) in seen.iter().skip(every / 2).step_by(every) {
            let value = format!("{}: {}", self.x.value(*x), self.y.value(*y));
            let name = match self.curves.len() {
                1 => value.clone(),
                _ => format!("{}, {value}", curve.name),
            };
            let (across, height) = (self.across(*x), self.height(*y));
            let above = if height < TOP + 16.0 { height + 20.0 } else { height - 9.0 };
            let half = value.len() as f64 * LETTER / 2.0;
            let middle = across.max(half).min(self.width() - half);
            _ = writeln!(
                svg,
                "<g class=\"tip\" tabindex=\"0\" role=\"img\" aria-label=\"{}\">\
                 <circle cx=\"{across:.1}\" cy=\"{height:.1}\" r=\"6\"/>\
                 <text text-anchor=\"middle\" x=\"{middle:.1}\" y=\"{above:.1}\">{}</text></g>",
                escaped(&name),
                escaped(&value)
            );
        }
    }

    fn line(&self, svg: &mut String, number: usize, curve: &Curve<'_>) {
        let (colour, dashed) = (colour(number, curve), dashed(number));
        let seen: Vec<(f64, f64)> = self.seen(curve).copied().collect();
        let is_joined = |one: &(f64, f64), next: &(f64, f64)| next.0 - one.0 <= curve.joined_within;
        for part in seen.chunk_by(is_joined) {
            _ = write!(svg, "<polyline class=\"line {colour}{dashed}\" points=\"");
            for (x, y) in part {
                _ = write!(svg, "{:.1},{:.1} ", self.across(*x), self.height(*y));
            }
            // A point without neighbours has a length, so that it is seen.
            if let [(x, y)] = part {
                _ = write!(svg, "{:.1},{:.1} ", self.across(*x) + 1.0, self.height(*y));
            }
            svg.push_str("\"/>\n");
        }
    }

    /// Draws the curves' names, each at the height of its curve's end, or as close to it as the
    /// others allow.
    fn names_beside(&self, svg: &mut String) {
        let ends = self.curves.iter().enumerate().filter_map(|(number, curve)| {
            let (x, y) = *self.seen(curve).last()?;
            Some((self.height(y), self.across(x), number, curve))
        });
        let mut ends: Vec<_> = ends.collect();
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let wanted: Vec<f64> = ends.iter().map(|end| end.0).collect();
        let places = apart(&wanted, TOP, self.bottom());
        let left = self.right();
        for ((y, x, number, curve), place) in ends.into_iter().zip(places) {
            let (line, fill) = (colour(number, curve), curve.colour.unwrap_or(number) % COLOURS);
            let fill = if curve.is_bound { String::new() } else { format!(" f{fill}") };
            _ = writeln!(
                svg,
                "<path class=\"lead {line}\" d=\"M{:.1} {y:.1}L{:.1} {place:.1}\"/>\
                 <text class=\"legend{fill}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 4.0,
                left + 16.0,
                left + 19.0,
                place + 4.0,
                escaped(curve.name)
            );
        }
    }

    /// Returns the names with a sample of their curves.
    fn keys(&self) -> String {
        let mut keys = String::new();
        if self.names == Names::Above && self.curves.len() > 1 {
            for (number, curve) in self.curves.iter().enumerate() {
                let (colour, dashed) = (colour(number, curve), dashed(number));
                let (class, path) = match self.style {
                    Style::Dots => ("points", "M17 5h0"),
                    Style::Line | Style::Marked => ("line", "M0 5H22"),
                };
                key(&mut keys, &format!("{class} {colour}{dashed}"), path, curve.name);
            }
        }
        for level in &self.levels {
            key(&mut keys, "published", "M0 5H22", &level.name);
        }
        keys
    }
}

/// Writes a name with its sample before it.
pub(crate) fn key(keys: &mut String, class: &str, path: &str, name: &str) {
    _ = write!(
        keys,
        "<span><svg viewBox=\"0 0 22 10\" aria-hidden=\"true\"><path class=\"{class}\" d=\"{path}\"/></svg>\
         {}</span>",
        escaped(name)
    );
}

/// The approximate width of a letter.
const LETTER: f64 = 7.6;

/// Returns the smallest step between shown words along the axis, so that they do not touch.
fn every(words: &[(f64, String)]) -> usize {
    let fits = |every: usize| {
        let shown: Vec<_> = words.iter().step_by(every).collect();
        shown.windows(2).all(|pair| {
            let letters = pair[0].1.len() + pair[1].1.len();
            pair[1].0 - pair[0].0 >= letters as f64 / 2.0 * LETTER + 5.0
        })
    };
    (1..words.len()).find(|every| fits(*every)).unwrap_or(words.len().max(1))
}

/// Returns the CSS class of a curve's colour.
fn colour(number: usize, curve: &Curve<'_>) -> String {
    if curve.is_bound {
        "bound".to_owned()
    } else {
        format!("c{}", curve.colour.unwrap_or(number) % COLOURS)
    }
}

/// Returns the CSS class of its dashes.
fn dashed(number: usize) -> &'static str {
    match number / COLOURS {
        0 => "",
        odd if odd % 2 == 1 => " d1",
        _ => " d2",
    }
}

/// Returns positions close to these heights, which are in ascending order: each as far from the
/// next as names need, and between the ends if all fit.
fn apart(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut places = Vec::with_capacity(wanted.len());
    let mut free = top;
    for want in wanted {
        let place = want.max(free);
        places.push(place);
        free = place + APART;
    }
    // A name below the bottom pushes the others up.
    let mut free = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(free);
        free = *place - APART;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_apart_and_near_their_curves() {
        assert_eq!(apart(&[40.0, 80.0], 34.0, 254.0), [40.0, 80.0]);
        assert_eq!(apart(&[40.0, 41.0, 41.0, 100.0], 34.0, 254.0), [40.0, 53.0, 66.0, 100.0]);
        assert_eq!(apart(&[250.0, 253.0, 254.0], 34.0, 254.0), [228.0, 241.0, 254.0]);
        let many = apart(&[200.0; 13], 34.0, 254.0);
        assert!(many.windows(2).all(|pair| pair[1] - pair[0] >= APART - 1e-9), "{many:?}");
        assert!(many[0] >= 34.0 && many[12] <= 254.0, "{many:?}");
        assert!(apart(&[], 0.0, 1.0).is_empty());
    }

    fn plot<'a>(names: Names, curves: Vec<Curve<'a>>) -> Plot<'a> {
        Plot {
            title: "a & b".to_owned(),
            along: "memory".to_owned(),
            up: "ratio".to_owned(),
            x: Axis::doublings([4096.0, 8192.0].into_iter()),
            y: Axis::around([0.0, 0.7].into_iter()),
            style: Style::Marked,
            names,
            curves,
            levels: Vec::new(),
        }
    }

    #[test]
    fn every_curve_has_its_line_its_name_and_its_own_look() {
        let names: Vec<String> = (0..14).map(|number| format!("<{number}>")).collect();
        for beside in [Names::Beside, Names::Above] {
            let curves = names.iter().enumerate().map(|(number, name)| Curve {
                name,
                points: vec![(4096.0, 0.1), (8192.0, number as f64 / 20.0)],
                is_bound: number == 13,
                ..Curve::new("", Vec::new())
            });
            let figure = plot(beside, curves.collect()).figure();
            let mut looks: Vec<&str> =
                figure.lines().filter(|line| line.starts_with("<polyline")).collect();
            looks.iter_mut().for_each(|line| *line = line.split(" points").next().unwrap_or(""));
            looks.sort_unstable();
            looks.dedup();
            assert_eq!(looks.len(), 14, "{looks:?}");
            assert!((0..14).all(|number| figure.contains(&format!("&lt;{number}&gt;</"))));
            assert!(figure.contains("<figcaption>a &amp; b</") && figure.contains(">4 KiB</text>"));
        }
    }

    #[test]
    fn a_gap_is_not_drawn() {
        let points = vec![(4096.0, 0.1), (4100.0, 0.2), (8000.0, 0.3)];
        let lines = |curve| plot(Names::Above, vec![curve]).figure().matches("<polyline").count();
        assert_eq!(lines(Curve::new("x", points.clone())), 1);
        assert_eq!(lines(Curve { joined_within: 10.0, ..Curve::new("x", points.clone()) }), 2);
        let plot = plot(Names::Above, vec![Curve::new("x", points)]);
        assert!(plot.figure().contains("data:text/csv"));
        assert!(!plot.figure_without_csv().contains("CSV"));
    }

    #[test]
    fn a_published_value_is_a_line_and_a_range_is_a_band() {
        let level = |low, high| Level { name: "published".to_owned(), low, high };
        let mut plot = plot(Names::Above, vec![Curve::new("x", vec![(4096.0, 0.5)])]);
        assert!(!plot.figure().contains("class=\"keys\""), "one curve needs no name");
        plot.levels = vec![level(0.2, 0.2), level(0.1, 9.0)];
        let figure = plot.figure();
        assert_eq!(figure.matches("class=\"band\"").count(), 1);
        // Each has a key; the range has two ends, of which the upper one is beyond the axis.
        assert_eq!(figure.matches("class=\"published\"").count(), 2 + 3);
        assert!(figure.contains(&format!("M{LEFT} {TOP:.1}H")), "{figure}");
    }

    #[test]
    fn words_along_an_axis_do_not_touch() {
        let words = |distance: f64| -> Vec<(f64, String)> {
            (0..9).map(|number| (f64::from(number) * distance, "512 KiB".to_owned())).collect()
        };
        assert_eq!((every(&words(80.0)), every(&words(40.0)), every(&words(20.0))), (1, 2, 3));
        assert_eq!((every(&words(0.1)), every(&[])), (9, 1));
    }
}
