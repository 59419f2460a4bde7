//! The choices of the user: a volume, the order, the help.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use live::{Snapshot, Volume};
use std::cmp::Ordering;

/// Order of the volumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Order {
    #[default]
    Name,
    Reads,
    HitRatio,
    Dirty,
}

impl Order {
    fn next(self) -> Order {
        match self {
            Order::Name => Order::Reads,
            Order::Reads => Order::HitRatio,
            Order::HitRatio => Order::Dirty,
            Order::Dirty => Order::Name,
        }
    }

    /// Returns the order in words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Order::Name => "by name",
            Order::Reads => "by reads, the most first",
            Order::HitRatio => "by hit ratio, the lowest first",
            Order::Dirty => "by dirty data, the most first",
        }
    }

    fn compare(self, one: &Volume, two: &Volume) -> Ordering {
        let reads = |volume: &Volume| volume.rates().map_or(0.0, |rates| rates.reads_per_s);
        let ratio = |it: &Volume| it.rates().and_then(|it| it.hit_ratio).unwrap_or(f64::MAX);
        let by_order = match self {
            Order::Name => Ordering::Equal,
            Order::Reads => reads(two).total_cmp(&reads(one)),
            Order::HitRatio => ratio(one).total_cmp(&ratio(two)),
            Order::Dirty => two.row.dirty_bytes.cmp(&one.row.dirty_bytes),
        };
        by_order.then_with(|| one.row.name.cmp(&two.row.name))
    }
}

/// The end of the view, as the user has requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Quit;

/// The choices of the user.
#[derive(Default)]
pub(super) struct View {
    pub(super) order: Order,
    pub(super) has_help: bool,
    /// The names of the volumes in their order.
    pub(super) names: Vec<String>,
    /// The name of the chosen volume: it stays chosen when the order changes.
    pub(super) chosen: Option<String>,
}

impl View {
    /// Arranges the volumes in the chosen order.
    pub(super) fn arrange(&mut self, snapshot: &Snapshot) {
        let mut volumes: Vec<&Volume> = snapshot.volumes.iter().collect();
        volumes.sort_by(|one, two| self.order.compare(one, two));
        self.names = volumes.iter().map(|volume| volume.row.name.clone()).collect();
    }

    /// Returns the position of the chosen volume; the first one if none is chosen.
    pub(super) fn position(&self) -> usize {
        let chosen = self.chosen.as_ref();
        self.names.iter().position(|name| Some(name) == chosen).unwrap_or(0)
    }

    fn choose(&mut self, position: usize) {
        let last = self.names.len().saturating_sub(1);
        self.chosen = self.names.get(position.min(last)).cloned();
    }

    /// Follows a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Quit> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let position = self.position();
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Some(Quit);
            }
            KeyCode::Char('q') => return Some(Quit),
            KeyCode::Esc if self.has_help => self.has_help = false,
            KeyCode::Esc => return Some(Quit),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.has_help = !self.has_help,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Down | KeyCode::Char('j') => self.choose(position + 1),
            KeyCode::Up | KeyCode::Char('k') => self.choose(position.saturating_sub(1)),
            KeyCode::Home => self.choose(0),
            KeyCode::End => self.choose(usize::MAX),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn keys_choose_sort_and_end() {
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let mut view = View { names, ..View::default() };
        for (code, position) in [
            (KeyCode::Down, 1),
            (KeyCode::Char('j'), 2),
            (KeyCode::Down, 2),
            (KeyCode::Up, 1),
            (KeyCode::Home, 0),
            (KeyCode::End, 2),
        ] {
            assert_eq!(view.press(key(code)), None);
            assert_eq!(view.position(), position, "{code:?}");
        }
        // The chosen volume stays chosen at another place.
        view.names.rotate_right(1);
        assert_eq!(view.position(), 0);
        assert_eq!((view.press(key(KeyCode::Char('s'))), view.order), (None, Order::Reads));
        assert_eq!((view.press(key(KeyCode::Char('?'))), view.has_help), (None, true));
        assert_eq!((view.press(key(KeyCode::Esc)), view.has_help), (None, false));
        for end in [key(KeyCode::Esc), key(KeyCode::Char('q'))] {
            assert_eq!(view.press(end), Some(Quit));
        }
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(view.press(control_c), Some(Quit));
    }
}
