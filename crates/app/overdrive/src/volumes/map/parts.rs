//! A volume's cached data in a bounded number of parts: the largest directories are divided into
//! their directories and files, until the parts are too small or too many to be seen.

use super::amounts::{Amounts, PathAmounts};
use files::Owner;
use std::collections::{BinaryHeap, HashMap};

/// Maximum number of parts.
pub(super) const PARTS_MAX: usize = 300;
/// The smallest part with a name is this fraction of all cached data.
const SMALLEST: u64 = 1000;

/// The contents of a part.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content<'a> {
    File(&'a PathAmounts),
    Directory(&'a PathAmounts),
    /// Smaller files and directories of this directory.
    Rest(&'a PathAmounts),
    /// Blocks of no file, of this class.
    NoFile(&'a str),
    /// Small remainders of several directories.
    Small,
}

/// A part of the cached data.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) content: Content<'a>,
    /// The class with the most bytes.
    pub(super) class: &'a str,
    pub(super) cached_bytes: u64,
    /// The parts of a directory that is divided.
    pub(super) parts: Vec<Part<'a>>,
}

/// Cached bytes by class.
#[derive(Default)]
struct ByClass<'a>(HashMap<&'a str, u64>);

impl<'a> ByClass<'a> {
    fn add(&mut self, class: &'a str, bytes: u64) {
        *self.0.entry(class).or_default() += bytes;
    }

    fn bytes(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the class with the most bytes.
    fn most(&self) -> &'a str {
        let most = self.0.iter().max_by_key(|(class, bytes)| (**bytes, std::cmp::Reverse(**class)));
        most.map_or("", |(class, _)| class)
    }
}

/// A directory that is divided.
struct Divided<'a> {
    /// Its children that are parts, the largest first.
    named: Vec<&'a PathAmounts>,
    /// Its smaller children.
    rest: ByClass<'a>,
}

/// The directories and files of a volume by the directory that contains them.
struct Division<'a> {
    children: HashMap<u32, Vec<&'a PathAmounts>>,
    /// Bytes of the smallest part with a name.
    least_bytes: u64,
    /// Directories that are divided, by their numbers.
    divided: HashMap<u32, Divided<'a>>,
    /// Remainders that are too small for a part.
    small: ByClass<'a>,
}

impl<'a> Division<'a> {
    fn new(amounts: &'a Amounts, cached_bytes: u64) -> Division<'a> {
        let mut children: HashMap<u32, Vec<&PathAmounts>> = HashMap::new();
        for one in amounts.directories.iter().chain(&amounts.files) {
            if let Some(parent) = one.parent {
                children.entry(parent).or_default().push(one);
            }
        }
        let least_bytes = (cached_bytes / SMALLEST).max(1);
        Division { children, least_bytes, divided: HashMap::new(), small: ByClass::default() }
    }

    /// Divides directories, the one with the most cached bytes first, while there is room.
    fn divide(&mut self, root: &'a PathAmounts, parts: usize) {
        let mut count = parts + 1;
        let mut next = BinaryHeap::from([(root.cached_bytes, number(root))]);
        while let Some((_, directory)) = next.pop() {
            // One for the rest.
            let room = PARTS_MAX.saturating_sub(count + 1);
            let Some(divided) = self.divided(directory, room) else { continue };
            count += divided.named.len() + 1;
            let is_directory = |child: &&&PathAmounts| matches!(child.owner, Owner::Directory(_));
            let below = divided.named.iter().filter(is_directory);
            next.extend(below.map(|child| (child.cached_bytes, number(child))));
            self.divided.insert(directory, divided);
        }
    }

    /// Divides a directory into at most this number of parts with names. None: it has none that is
    /// large enough.
    fn divided(&mut self, directory: u32, room: usize) -> Option<Divided<'a>> {
        let mut named = self.children.remove(&directory)?;
        named.sort_by_key(|child| std::cmp::Reverse(child.cached_bytes));
        let large = named.partition_point(|child| child.cached_bytes >= self.least_bytes);
        let mut rest = ByClass::default();
        for child in named.split_off(large.min(room)) {
            rest.add(&child.class, child.cached_bytes);
        }
        (!named.is_empty()).then_some(Divided { named, rest })
    }

    /// Returns the part of a directory or a file.
    fn part(&mut self, one: &'a PathAmounts) -> Part<'a> {
        let whole = |content| Part {
            content,
            class: &one.class,
            cached_bytes: one.cached_bytes,
            parts: Vec::new(),
        };
        if matches!(one.owner, Owner::File(_)) {
            return whole(Content::File(one));
        }
        let Some(Divided { named, mut rest }) = self.divided.remove(&number(one)) else {
            return whole(Content::Directory(one));
        };
        // Blocks of the directory itself.
        let shown: u64 = named.iter().map(|child| child.cached_bytes).sum();
        let own = one.cached_bytes.saturating_sub(shown + rest.bytes());
        if own > 0 {
            rest.add("directories", own);
        }
        let mut parts: Vec<Part<'_>> = named.into_iter().map(|child| self.part(child)).collect();
        if rest.bytes() >= self.least_bytes {
            parts.push(Part {
                content: Content::Rest(one),
                class: rest.most(),
                cached_bytes: rest.bytes(),
                parts: Vec::new(),
            });
        } else {
            rest.0.into_iter().for_each(|(class, bytes)| self.small.add(class, bytes));
        }
        let cached_bytes = parts.iter().map(|part| part.cached_bytes).sum();
        Part { parts, cached_bytes, ..whole(Content::Directory(one)) }
    }
}

/// Returns the number of a directory or a file.
fn number(one: &PathAmounts) -> u32 {
    match one.owner {
        Owner::Directory(number) | Owner::File(number) => number,
        Owner::None => 0,
    }
}

/// Returns the parts of all cached data: those of the root directory, and those of no file.
pub(super) fn parts(amounts: &Amounts) -> Vec<Part<'_>> {
    let cached_bytes = amounts.classes.iter().map(|class| class.cached_bytes).sum();
    let mut division = Division::new(amounts, cached_bytes);
    let mut parts = Vec::new();
    // A root without cached blocks has no amounts.
    if let Some(root) = amounts.directories.iter().find(|one| one.parent.is_none()) {
        division.divide(root, amounts.ownerless.len() + 1);
        parts.push(division.part(root));
    }
    let no_file = amounts.ownerless.iter().map(|(class, cached_bytes)| Part {
        content: Content::NoFile(class),
        class,
        cached_bytes: *cached_bytes,
        parts: Vec::new(),
    });
    parts.extend(no_file);
    if division.small.bytes() > 0 {
        parts.push(Part {
            content: Content::Small,
            class: division.small.most(),
            cached_bytes: division.small.bytes(),
            parts: Vec::new(),
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::map::examples;

    /// Returns the leaves of parts.
    fn leaves<'a, 'b>(parts: &'b [Part<'a>]) -> Vec<&'b Part<'a>> {
        let below = |part: &'b Part<'a>| match part.parts.is_empty() {
            true => vec![part],
            false => leaves(&part.parts),
        };
        parts.iter().flat_map(below).collect()
    }

    #[test]
    fn parts_have_all_cached_data_once() {
        let report = examples::report();
        let parts = parts(&report.amounts);
        let shown: Vec<String> = leaves(&parts)
            .iter()
            .map(|part| {
                let content = match part.content {
                    Content::File(one) => String::from_utf8_lossy(&one.path).into_owned(),
                    Content::Directory(one) => format!("{}/", String::from_utf8_lossy(&one.path)),
                    Content::Rest(one) => format!("{} *", String::from_utf8_lossy(&one.path)),
                    Content::NoFile(_) => "no file".to_owned(),
                    Content::Small => "small".to_owned(),
                };
                format!("{content}: {} {}", part.class, part.cached_bytes / 4096)
            })
            .collect();
        let expected = [
            "/films/\u{fffd}.mp4: other 4096",
            "/srv/box.mbox: databases 1024",
            "no file: metadata 8",
            "small: documents 1",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_directory_of_more_children_than_parts_has_its_largest_ones_as_parts() {
        let amounts = examples::many(PARTS_MAX as u32 * 2, 1);
        let parts = parts(&amounts);
        let count = leaves(&parts).len();
        assert!((PARTS_MAX - 3..=PARTS_MAX).contains(&count), "{count}");
    }

    #[test]
    fn many_files_make_a_bounded_number_of_parts() {
        let amounts = examples::many(20, 100);
        let parts = parts(&amounts);
        let all = leaves(&parts);
        assert!((100..=PARTS_MAX).contains(&all.len()), "{}", all.len());
        let cached: u64 = amounts.classes.iter().map(|class| class.cached_bytes).sum();
        assert_eq!(all.iter().map(|part| part.cached_bytes).sum::<u64>(), cached);
        assert!(all.iter().any(|part| matches!(part.content, Content::Rest(_))));
    }
}
