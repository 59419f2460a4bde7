//! Draws without replacement: in random order, and each as often as planned.

use lane::Random;

/// Items with the number of times that each is still to be drawn.
#[derive(Clone, Debug)]
pub(crate) struct Urn<T> {
    items: Vec<(T, u64)>,
    left: u64,
}

impl<T: Copy> Urn<T> {
    /// Returns an urn with these items.
    pub(crate) fn new(items: impl IntoIterator<Item = (T, u64)>) -> Urn<T> {
        let mut items: Vec<(T, u64)> = items.into_iter().filter(|(_, count)| *count > 0).collect();
        // The most frequent ones are found first.
        items.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let left = items.iter().map(|(_, count)| count).sum();
        Urn { items, left }
    }

    /// Returns the number of draws that are left.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Draws an item. None: the urn is empty.
    pub(crate) fn draw(&mut self, random: &mut Random) -> Option<T> {
        if self.left == 0 {
            return None;
        }
        let mut number = random.below(self.left);
        self.left -= 1;
        for (item, count) in &mut self.items {
            if number < *count {
                *count -= 1;
                return Some(*item);
            }
            number -= *count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_drawn_as_often_as_planned() {
        let mut urn = Urn::new([('a', 3), ('b', 0), ('c', 500)]);
        let mut random = Random::new(1);
        let drawn: Vec<char> = std::iter::from_fn(|| urn.draw(&mut random)).collect();
        assert_eq!(drawn.iter().filter(|item| **item == 'a').count(), 3);
        assert_eq!((drawn.len(), urn.left()), (503, 0));
        assert_ne!(drawn[..3], ['a', 'a', 'a']);
    }
}
