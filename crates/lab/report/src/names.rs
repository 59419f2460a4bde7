//! The names of tests as positions in plots: `random read, 4 KiB, QD32` is a point of the curve of
//! depth 32 over sizes.

use crate::chart::{Along, by_doublings};
use crate::plot::Curve;

/// The position of a test's value in a plot.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlotPosition<'a> {
    /// The subject of its plot; empty where curves of all kinds share one.
    pub group: &'a str,
    /// Its curve.
    pub curve: &'a str,
    /// The horizontal axis.
    pub along: Along,
    /// The position on that axis.
    pub at: f64,
}

/// Returns the position of a test's value. None: its name ends with neither a size nor a depth.
pub fn plot_position(test: &str) -> Option<PlotPosition<'_>> {
    let (stem, last) = test.rsplit_once(", ")?;
    if let Some(at) = size(last) {
        return Some(PlotPosition { group: "", curve: stem, along: Along::Size, at });
    }
    let depth: u32 = last.strip_prefix("QD")?.parse().ok()?;
    let sized = stem.rsplit_once(", ").and_then(|(group, word)| Some((group, size(word)?)));
    Some(match sized {
        Some((group, at)) => PlotPosition { group, curve: last, along: Along::Size, at },
        None => PlotPosition { group: "", curve: stem, along: Along::Depth, at: depth.into() },
    })
}

/// Returns the bytes of `4 KiB`.
fn size(word: &str) -> Option<f64> {
    let (number, unit) = word.split_once(' ')?;
    let power = ["B", "KiB", "MiB", "GiB"].iter().position(|known| *known == unit)?;
    let number: u32 = number.parse().ok()?;
    Some(f64::from(number) * 1024f64.powi(power as i32)).filter(|bytes| *bytes >= 1.0)
}

/// Returns plots of all values that belong on curves, and the indices of the others. Each value has
/// an owner (empty if there is only one), its test, and the figure.
pub fn curves(values: &[(&str, &str, f64)], unit: &str) -> (Vec<String>, Vec<usize>) {
    let mut plots: Vec<(&str, Along)> = Vec::new();
    let positions: Vec<_> = values.iter().map(|(_, test, _)| plot_position(test)).collect();
    for plot_position in positions.iter().flatten() {
        if !plots.contains(&(plot_position.group, plot_position.along)) {
            plots.push((plot_position.group, plot_position.along));
        }
    }
    let mut left: Vec<usize> =
        (0..values.len()).filter(|number| positions[*number].is_none()).collect();
    let mut figures = Vec::new();
    for plot in plots {
        let mut named: Vec<(String, Vec<usize>)> = Vec::new();
        for (number, plot_position) in positions.iter().enumerate() {
            let Some(plot_position) = plot_position
                .filter(|plot_position| (plot_position.group, plot_position.along) == plot)
            else {
                continue;
            };
            let of = values[number].0;
            let name = if of.is_empty() {
                plot_position.curve.into()
            } else {
                format!("{of}: {}", plot_position.curve)
            };
            match named.iter_mut().find(|(known, _)| *known == name) {
                Some((_, numbers)) => numbers.push(number),
                None => named.push((name, vec![number])),
            }
        }
        // One or two points are no curve; they become bars, which show their intervals.
        let (curves, points): (Vec<_>, Vec<_>) =
            named.into_iter().partition(|(_, numbers)| numbers.len() > 2);
        left.extend(points.into_iter().flat_map(|(_, numbers)| numbers));
        let at = |number: &usize| positions[*number].map_or(0.0, |plot_position| plot_position.at);
        let point = |number: &usize| (at(number), values[*number].2);
        // Curves of several owners need their own colours.
        let has_owners = values.iter().any(|value| !value.0.is_empty()) || curves.len() > 2;
        let drawn: Vec<Curve<'_>> = curves
            .iter()
            .map(|(name, numbers)| curve(name, numbers.iter().map(point).collect(), has_owners))
            .collect();
        if !drawn.is_empty() {
            figures.push(by_doublings(&title(plot, unit), plot.1, unit, drawn));
        }
    }
    left.sort_unstable();
    (figures, left)
}

fn curve(name: &str, points: Vec<(f64, f64)>, has_owners: bool) -> Curve<'_> {
    if has_owners { Curve::new(name, points) } else { Curve::by_direction(name, points) }
}

fn title((group, along): (&str, Along), unit: &str) -> String {
    let along = match along {
        Along::Size => "by transfer size",
        Along::Depth => "by requests under way",
    };
    if group.is_empty() { format!("{unit} {along}") } else { format!("{group}: {unit} {along}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_where_a_value_belongs() {
        let plot_position =
            |test| plot_position(test).map(|it| (it.group, it.curve, it.along, it.at));
        assert_eq!(plot_position("write, 4 KiB"), Some(("", "write", Along::Size, 4096.0)));
        assert_eq!(plot_position("web server, QD8"), Some(("", "web server", Along::Depth, 8.0)));
        assert_eq!(
            plot_position("random read, 512 B, QD256"),
            Some(("random read", "QD256", Along::Size, 512.0))
        );
        for none in
            ["", "write", "QD8", "4 KiB", "write, 4 XiB", "write, QDx", "a, 0 B", "a, -1 KiB"]
        {
            assert_eq!(plot_position(none), None, "{none}");
        }
    }

    #[test]
    fn curves_take_what_belongs_on_them_and_leave_the_rest() {
        let values = [
            ("", "write, 512 B", 1.0),
            ("", "score", 2.0),
            ("", "write, 1 KiB", 3.0),
            ("", "read, 1 KiB", 4.0),
            ("", "random read, 512 B, QD1", 5.0),
            ("", "random read, 1 KiB, QD1", 6.0),
            ("", "random read, 2 KiB, QD1", 6.5),
            ("", "write, 2 KiB", 7.0),
        ];
        let (figures, left) = curves(&values, "MB/s");
        assert_eq!((figures.len(), left), (2, vec![1, 3]));
        assert!(figures[0].contains("<figcaption>MB/s by transfer size</figcaption>"));
        assert!(figures[1].contains("<figcaption>random read: MB/s by transfer size</"));
        let two = [
            ("one", "write, QD1", 1.0),
            ("one", "write, QD2", 1.5),
            ("one", "write, QD4", 1.6),
            ("two", "write, QD1", 2.0),
            ("two", "write, QD2", 2.5),
        ];
        let (figures, left) = curves(&two, "IOPS");
        assert_eq!((figures.len(), left), (1, vec![3, 4]), "two points are no curve");
        assert!(curves(&[], "IOPS").0.is_empty());
    }
}
