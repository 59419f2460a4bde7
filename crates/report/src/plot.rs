//! Plots as SVG.

use crate::axis::Axis;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
/// With so many names beside that they need room.
const TALL: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 46.0;

/// How points are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// One dot each: scatter is what is to be seen.
    Dots,
    /// Joined.
    Line,
    /// Joined, with a dot at each: they are few.
    Marked,
}

/// Where the names of curves stand, if there are several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// In a row above.
    Above,
    /// Each at its curve's end, on the right.
    Beside,
}

/// A curve.
pub struct Curve<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its points, from the left to the right: along, up.
    pub points: Vec<(f64, f64)>,
    /// Whether it is what no other can pass: it has the colour of text, and is dotted.
    pub is_bound: bool,
}

/// A plot.
pub struct Plot<'a> {
    /// What it shows.
    pub title: String,
    /// What lies along, and its unit.
    pub along: String,
    /// What goes up, and its unit.
    pub up: String,
    /// The axis along.
    pub x: Axis,
    /// The axis up.
    pub y: Axis,
    /// How points are drawn.
    pub style: Style,
    /// Where the curves' names are.
    pub names: Names,
    /// The curves.
    pub curves: Vec<Curve<'a>>,
}

/// Colours that there are; curves beyond are dashed.
const COLOURS: usize = 6;
/// Room for the names beside, and the least distance between two.
const BESIDE: f64 = 110.0;
const APART: f64 = 13.0;

/// Text that stands in a page as it is.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Plot<'_> {
    fn across(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (self.right() - LEFT)
    }

    /// Where the frame ends.
    fn right(&self) -> f64 {
        WIDTH - if self.names == Names::Beside { BESIDE } else { RIGHT }
    }

    fn height(&self, value: f64) -> f64 {
        self.bottom() - self.y.place(value) * (self.bottom() - TOP)
    }

    /// How high it is with all that stands below the frame.
    fn whole_height(&self) -> f64 {
        let is_crowded = self.names == Names::Beside && self.curves.len() > COLOURS;
        if is_crowded { TALL } else { HEIGHT }
    }

    /// Where the frame ends below.
    fn bottom(&self) -> f64 {
        self.whole_height() - BOTTOM
    }

    /// The plot as an element of a page.
    pub fn svg(&self) -> String {
        let title = escaped(&self.title);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{title}\">\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"18\">{title}</text>\n",
            self.whole_height()
        );
        self.frame(&mut svg);
        for (number, curve) in self.curves.iter().enumerate() {
            match self.style {
                Style::Dots => self.dots(&mut svg, number, curve),
                Style::Line => self.line(&mut svg, number, curve),
                Style::Marked => {
                    self.line(&mut svg, number, curve);
                    self.points(&mut svg, number, curve, "points");
                }
            }
        }
        match self.names {
            Names::Above if self.curves.len() > 1 => self.legend(&mut svg),
            Names::Above => {}
            Names::Beside => self.names_beside(&mut svg),
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Grid, ticks and the names of the axes.
    fn frame(&self, svg: &mut String) {
        let (right, bottom) = (self.right(), self.bottom());
        for tick in self.y.ticks() {
            let y = self.height(tick);
            _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 7.0,
                y + 4.0,
                self.y.word(tick)
            );
        }
        for tick in self.x.ticks() {
            let x = self.across(tick);
            _ = writeln!(
                svg,
                "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{:.1}\"/>\
                 <text class=\"tick\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 4.0,
                bottom + 17.0,
                self.x.word(tick)
            );
        }
        _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"name\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"name\" text-anchor=\"middle\" transform=\"translate(16 {:.1}) rotate(-90)\">{}</text>",
            (LEFT + right) / 2.0,
            self.whole_height() - 8.0,
            escaped(&self.along),
            (TOP + bottom) / 2.0,
            escaped(&self.up),
        );
    }

    /// The points that lie in the frame.
    fn seen<'b>(&self, curve: &'b Curve<'_>) -> impl Iterator<Item = &'b (f64, f64)> {
        let x = self.x;
        curve.points.iter().filter(move |(along, _)| (x.low..=x.high).contains(along))
    }

    fn dots(&self, svg: &mut String, number: usize, curve: &Curve<'_>) {
        self.points(svg, number, curve, "dots");
    }

    fn points(&self, svg: &mut String, number: usize, curve: &Curve<'_>, class: &str) {
        _ = write!(svg, "<path class=\"{class} {}\" d=\"", colour(number, curve));
        for (x, y) in self.seen(curve) {
            _ = write!(svg, "M{:.1} {:.1}h0", self.across(*x), self.height(*y));
        }
        svg.push_str("\"/>\n");
    }

    fn line(&self, svg: &mut String, number: usize, curve: &Curve<'_>) {
        let dashed = match number / COLOURS {
            0 => String::new(),
            round => format!(" d{}", (round - 1) % 2 + 1),
        };
        _ = write!(svg, "<polyline class=\"line {}{dashed}\" points=\"", colour(number, curve));
        for (x, y) in self.seen(curve) {
            _ = write!(svg, "{:.1},{:.1} ", self.across(*x), self.height(*y));
        }
        svg.push_str("\"/>\n");
    }

    /// The curves' names, each as high as its curve ends, or as near as the others leave room.
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
            let (line, fill) = (colour(number, curve), number % COLOURS);
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

    /// The curves' names, in their colours, from the right.
    fn legend(&self, svg: &mut String) {
        let mut x = WIDTH - RIGHT;
        for (number, curve) in self.curves.iter().enumerate().rev() {
            _ = writeln!(
                svg,
                "<text class=\"legend f{}\" text-anchor=\"end\" x=\"{x:.1}\" y=\"18\">{}</text>",
                number % COLOURS,
                escaped(curve.name)
            );
            x -= curve.name.chars().count() as f64 * 7.5 + 18.0;
        }
    }
}

/// The class of a curve's colour.
fn colour(number: usize, curve: &Curve<'_>) -> String {
    if curve.is_bound { "bound".to_owned() } else { format!("c{}", number % COLOURS) }
}

/// Places near these heights, which are in order, each as far from the next as names need, and between the ends if there
/// is room for all.
fn apart(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut places = Vec::with_capacity(wanted.len());
    let mut free = top;
    for want in wanted {
        let place = want.max(free);
        places.push(place);
        free = place + APART;
    }
    // What went below the bottom pushes the others up again.
    let mut free = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(free);
        free = *place - APART;
    }
    places
}

/// Bars on a scale of their own, each with its figure.
pub fn bars(title: &str, unit: &str, bars: &[(String, f64)]) -> String {
    const ROW: f64 = 24.0;
    const NAMES: f64 = 270.0;
    let height = TOP + ROW * bars.len() as f64 + 6.0;
    let most = bars.iter().map(|(_, value)| *value).fold(1e-9, f64::max);
    let title = escaped(&format!("{title}, {unit}"));
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n\
         <text class=\"title\" x=\"0\" y=\"18\">{title}</text>\n"
    );
    for (index, (name, value)) in bars.iter().enumerate() {
        let y = TOP + ROW * index as f64;
        let width = (WIDTH - NAMES - 90.0) * value / most;
        _ = writeln!(
            svg,
            "<text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <rect class=\"bar\" x=\"{NAMES}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            NAMES - 8.0,
            y + 14.0,
            escaped(name),
            y + 2.0,
            ROW - 8.0,
            NAMES + width + 6.0,
            y + 14.0,
            crate::words::figure(*value)
        );
    }
    svg.push_str("</svg>\n");
    svg
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

    #[test]
    fn every_curve_has_its_line_its_name_and_its_own_look() {
        let names: Vec<String> = (0..14).map(|number| format!("<{number}>")).collect();
        let curves = names.iter().enumerate().map(|(number, name)| Curve {
            name,
            points: vec![(4096.0, 0.1), (8192.0, number as f64 / 20.0)],
            is_bound: number == 13,
        });
        let plot = Plot {
            title: "a & b".to_owned(),
            along: "memory".to_owned(),
            up: "ratio".to_owned(),
            x: Axis::doublings([4096.0, 8192.0].into_iter()),
            y: Axis::around([0.0, 0.7].into_iter()),
            style: Style::Marked,
            names: Names::Beside,
            curves: curves.collect(),
        };
        let svg = plot.svg();
        let mut looks: Vec<&str> =
            svg.lines().filter(|line| line.starts_with("<polyline")).collect();
        looks.iter_mut().for_each(|line| *line = line.split(" points").next().unwrap_or_default());
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), 14, "{looks:?}");
        assert!((0..14).all(|number| svg.contains(&format!("&lt;{number}&gt;</text>"))), "{svg}");
        assert!(svg.contains("a &amp; b") && svg.contains(">4 KiB</text>"));
    }
}
