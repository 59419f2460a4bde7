//! The layout of a treemap: areas in proportion to amounts, as close to squares as possible.
//!
//! The squarified layout of Bruls, Huizing and van Wijk, "Squarified Treemaps", Data Visualization
//! 2000 (Eurographics): rectangles are added to a row along the shorter side as long as the worst
//! ratio of sides in that row becomes better; then the next row begins in the rest.

/// A rectangle, in any unit; the vertical axis points down.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rectangle {
    /// The left edge.
    pub left: f64,
    /// The upper edge.
    pub top: f64,
    /// The width.
    pub width: f64,
    /// The height.
    pub height: f64,
}

/// Rectangles beside one another along the shorter side of the free space.
struct Row {
    /// Index of its first amount.
    first: usize,
    /// Number of its amounts.
    count: usize,
    /// Sum of their areas.
    area: f64,
}

impl Row {
    /// Returns the worst ratio of sides, if the row has these areas and this length.
    fn worst_ratio(area: f64, (largest, smallest): (f64, f64), length: f64) -> f64 {
        let thickness = area / length;
        let ratio = |one: f64| {
            let side = one / thickness;
            (side / thickness).max(thickness / side)
        };
        ratio(largest).max(ratio(smallest))
    }
}

/// Returns a rectangle for each of these amounts, in their order. Together they fill `within`, and
/// the area of each is in proportion to its amount. Amounts that are not above 0 have an area of 0.
pub fn squarified(amounts: &[f64], within: Rectangle) -> Vec<Rectangle> {
    let nothing = Rectangle { width: 0.0, height: 0.0, ..within };
    let mut all = vec![nothing; amounts.len()];
    let mut order: Vec<usize> = (0..amounts.len()).filter(|one| amounts[*one] > 0.0).collect();
    order.sort_by(|one, other| amounts[*other].total_cmp(&amounts[*one]));
    let sum: f64 = order.iter().map(|one| amounts[*one]).sum();
    let scale = within.width * within.height / sum;
    let areas: Vec<f64> = order.iter().map(|one| amounts[*one] * scale).collect();
    let mut free = within;
    let mut first = 0;
    while first < areas.len() {
        let row = next_row(&areas, first, free.width.min(free.height));
        let is_last = first + row.count == areas.len();
        let places = place(&areas, &row, &mut free, is_last);
        for (index, rectangle) in order[first..].iter().zip(places) {
            all[*index] = rectangle;
        }
        first += row.count;
    }
    all
}

/// Returns the row that begins with the area `first` along a side of this length.
fn next_row(areas: &[f64], first: usize, length: f64) -> Row {
    let mut row = Row { first, count: 1, area: areas[first] };
    let ends = |last: usize| (areas[first], areas[last]);
    let mut worst = Row::worst_ratio(row.area, ends(first), length);
    while let Some(more) = areas.get(first + row.count) {
        let next = Row::worst_ratio(row.area + more, ends(first + row.count), length);
        if next > worst {
            break;
        }
        worst = next;
        row.area += more;
        row.count += 1;
    }
    row
}

/// Returns the rectangles of a row, and takes it from the free space. The last row takes all.
fn place(areas: &[f64], row: &Row, free: &mut Rectangle, is_last: bool) -> Vec<Rectangle> {
    let is_column = free.width >= free.height;
    let (length, depth) =
        if is_column { (free.height, free.width) } else { (free.width, free.height) };
    let thickness = if is_last { depth } else { (row.area / length).min(depth) };
    let own = &areas[row.first..row.first + row.count];
    let mut from = 0.0;
    let rectangles = own.iter().map(|area| {
        let side = length * area / row.area;
        let (left, top) = (free.left, free.top);
        let rectangle = match is_column {
            true => Rectangle { left, top: top + from, width: thickness, height: side },
            false => Rectangle { left: left + from, top, width: side, height: thickness },
        };
        from += side;
        rectangle
    });
    let rectangles = rectangles.collect();
    match is_column {
        true => (free.left, free.width) = (free.left + thickness, depth - thickness),
        false => (free.top, free.height) = (free.top + thickness, depth - thickness),
    }
    rectangles
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Rectangle = Rectangle { left: 3.0, top: 5.0, width: 60.0, height: 40.0 };

    /// Lengths below this are errors of rounding.
    const NIL: f64 = 1e-9;

    fn overlap(one: &Rectangle, other: &Rectangle) -> bool {
        let along = (one.left + one.width).min(other.left + other.width) - one.left.max(other.left);
        let down = (one.top + one.height).min(other.top + other.height) - one.top.max(other.top);
        along > NIL && down > NIL
    }

    /// Checks the promises of a layout.
    fn check(amounts: &[f64]) {
        let all = squarified(amounts, FRAME);
        assert_eq!(all.len(), amounts.len());
        let sum: f64 = amounts.iter().filter(|one| **one > 0.0).sum();
        for (number, (one, amount)) in all.iter().zip(amounts).enumerate() {
            let expected = amount.max(0.0) / sum.max(NIL) * FRAME.width * FRAME.height;
            let area = one.width * one.height;
            assert!((area - expected).abs() <= 1e-6 * expected + NIL, "{number}: {one:?}");
            assert!(one.left >= FRAME.left - NIL && one.top >= FRAME.top - NIL, "{one:?}");
            let (right, bottom) = (one.left + one.width, one.top + one.height);
            assert!(right <= FRAME.left + FRAME.width + NIL, "{one:?}");
            assert!(bottom <= FRAME.top + FRAME.height + NIL, "{one:?}");
            let others = &all[number + 1..];
            assert!(!others.iter().any(|other| overlap(one, other)), "{number}: {one:?}");
        }
    }

    #[test]
    fn the_example_of_the_paper_has_its_rows() {
        let frame = Rectangle { left: 0.0, top: 0.0, width: 6.0, height: 4.0 };
        let all = squarified(&[6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0], frame);
        let sides = |one: &Rectangle| (one.width, one.height);
        let close = |one: (f64, f64), other: (f64, f64)| {
            assert!((one.0 - other.0).abs() + (one.1 - other.1).abs() < NIL, "{one:?} {other:?}");
        };
        // Two of 6 in a column; 4 and 3 in a row above; then 2, and 2 and 1 together.
        close(sides(&all[0]), (3.0, 2.0));
        close(sides(&all[1]), (3.0, 2.0));
        close(sides(&all[2]), (12.0 / 7.0, 7.0 / 3.0));
        close(sides(&all[3]), (9.0 / 7.0, 7.0 / 3.0));
        close(sides(&all[4]), (1.2, 5.0 / 3.0));
        close(sides(&all[5]), (1.2, 5.0 / 3.0));
        close(sides(&all[6]), (0.6, 5.0 / 3.0));
    }

    #[test]
    fn areas_are_in_proportion_and_fill_the_frame_without_overlap() {
        check(&[]);
        check(&[1.0]);
        check(&[0.0, 0.0]);
        check(&[0.0, 7.0, -1.0, 7.0]);
        check(&[1.0; 50]);
        let doubled: Vec<f64> = (0..40).map(|power| 2f64.powi(power)).collect();
        check(&doubled);
        let mixed: Vec<f64> =
            (0u64..300).map(|number| (number * 7919 % 1009 * 4096) as f64).collect();
        check(&mixed);
    }

    #[test]
    fn equal_amounts_are_nearly_squares() {
        let all = squarified(&[1.0; 60], FRAME);
        let ratio = |one: &Rectangle| (one.width / one.height).max(one.height / one.width);
        assert!(all.iter().all(|one| ratio(one) < 1.7), "{all:?}");
    }
}
