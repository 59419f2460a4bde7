//! The rules of a volume, with names of classes and treatments.

use block::{Pattern, Rules};
use files::Class;
use policy::{CLASSES, ClassAdmission, Treatment, Treatments, Weight, class_by_name};

/// Size from which sound and films are big media, in bytes.
const BIG_MEDIA_BYTES: u64 = 64 << 20;

/// The facts about a file by which rules choose its class.
#[derive(Clone, Copy, Debug)]
pub struct FileFacts<'a> {
    /// The class by its name, its place and its first bytes.
    pub class: Class,
    /// Its path from the root of its file system, without a slash at the beginning. Empty if no
    /// rule needs it ([`FileRules::need_paths`]).
    pub path: &'a [u8],
    /// Its name.
    pub name: &'a [u8],
    /// Its size, in bytes.
    pub bytes: u64,
}

/// Rules whose values were checked.
#[derive(Clone, Debug, Default)]
pub struct FileRules {
    treatments: Treatments,
    /// Directories without slashes at their ends, the longest first, with the number of a class.
    directories: Vec<(Vec<u8>, u8)>,
    endings: Vec<(Vec<u8>, u8)>,
    /// Sizes in bytes, the largest first.
    sizes: Vec<(u64, u8)>,
}

impl FileRules {
    /// Reads rules.
    ///
    /// # Errors
    /// A class or a treatment does not exist: a sentence with a correction.
    pub fn new(rules: &Rules) -> Result<FileRules, String> {
        let mut all = FileRules::default();
        for (pattern, value) in rules.pairs() {
            match pattern {
                Pattern::Class(name) => {
                    let class = class_of(name)?;
                    let usual = all.treatments.of(class);
                    all.treatments.set(class, treatment(value, usual)?);
                }
                Pattern::Directory(path) => {
                    let path = path.trim_start_matches('/').as_bytes().to_vec();
                    all.directories.push((path, class_of(value)?));
                }
                Pattern::Ending(ending) => {
                    all.endings.push((ending.as_bytes().to_vec(), class_of(value)?));
                }
                Pattern::Larger(size) => all.sizes.push((size.0, class_of(value)?)),
            }
        }
        all.directories.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        all.sizes.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        Ok(all)
    }

    /// Returns the treatment of each class.
    pub fn treatments(&self) -> Treatments {
        self.treatments
    }

    /// Whether a rule depends on the paths of files.
    pub fn need_paths(&self) -> bool {
        !self.directories.is_empty()
    }

    /// Returns the number of the class of a file, in a cache of this size.
    pub(crate) fn class_of(&self, file: &FileFacts<'_>, memory_bytes: u64) -> u8 {
        let contains = |(directory, _): &&(Vec<u8>, u8)| {
            let rest = file.path.strip_prefix(directory.as_slice());
            rest.is_some_and(|rest| directory.is_empty() || rest.starts_with(b"/"))
        };
        let has_ending = |(ending, _): &&(Vec<u8>, u8)| {
            let length = file.name.len().checked_sub(ending.len());
            let (before, own) = length.map_or((&b""[..], &b""[..]), |at| file.name.split_at(at));
            before.last() == Some(&b'.') && own.eq_ignore_ascii_case(ending)
        };
        let by_place = self.directories.iter().find(contains).map(|(_, class)| *class);
        let by_name = || self.endings.iter().find(has_ending).map(|(_, class)| *class);
        let is_larger = |(bytes, _): &&(u64, u8)| file.bytes > *bytes;
        let by_size = || self.sizes.iter().find(is_larger).map(|(_, class)| *class);
        let chosen = by_place.or_else(by_name).or_else(by_size);
        chosen.unwrap_or_else(|| usual_class(file, memory_bytes))
    }
}

/// Returns the class of a file that no rule is about. A database that is larger than the cache
/// cannot be preferred to everything else.
fn usual_class(file: &FileFacts<'_>, memory_bytes: u64) -> u8 {
    let name = match file.class {
        Class::Media if file.bytes >= BIG_MEDIA_BYTES => "big-media",
        Class::Databases if file.bytes > memory_bytes => "big-databases",
        class => class.name(),
    };
    number_of(name)
}

/// Returns the number of a class that there is.
pub(crate) fn number_of(name: &str) -> u8 {
    class_by_name(name).expect("the policy has every class of files")
}

fn class_of(name: &str) -> Result<u8, String> {
    class_by_name(name).ok_or_else(|| {
        let names: Vec<&str> = CLASSES.iter().map(|class| class.name).collect();
        format!("'{name}' is no class of files; the classes are {}", names.join(", "))
    })
}

/// Reads a treatment: a weight, an admission, or both. A part that is missing stays as `usual`.
fn treatment(text: &str, usual: Treatment) -> Result<Treatment, String> {
    let mut read = usual;
    for word in text.split_ascii_whitespace() {
        let weight = word.parse().ok().and_then(Weight::new);
        match (weight, ClassAdmission::by_name(word)) {
            (Some(weight), _) => read.weight = weight,
            (None, Some(admission)) => read.admission = admission,
            (None, None) => {
                let words: Vec<&str> = ClassAdmission::ALL.iter().map(|one| one.name()).collect();
                return Err(format!(
                    "'{word}' is no treatment; write a weight from 0.0625 to 16, or one of {}, or \
                     both",
                    words.join(", ")
                ));
            }
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> FileRules {
        FileRules::new(&text.parse().expect("syntax")).expect("values")
    }

    fn name_of(rules: &FileRules, class: Class, path: &str, bytes: u64) -> &'static str {
        let name = path.rsplit('/').next().unwrap_or_default().as_bytes();
        let file = FileFacts { class, path: path.as_bytes(), name, bytes };
        CLASSES[usize::from(rules.class_of(&file, 1 << 30))].name
    }

    #[test]
    fn the_longest_directory_counts_then_the_ending_then_the_size() {
        let rules = rules(
            "/srv=documents,/srv/films=big-media,*.iso=archives,>1G=other,>1M=pictures,/=metadata",
        );
        for (path, bytes, expected) in [
            ("srv/films/a.iso", 2 << 30, "big-media"),
            ("srv/filmsy/a.iso", 2 << 30, "documents"),
            ("srv/a", 1, "documents"),
            ("home/a.iso", 1, "metadata"),
        ] {
            assert_eq!(name_of(&rules, Class::Other, path, bytes), expected, "{path}");
        }
        let rules = super::tests::rules("*.iso=archives,>1G=other,>1M=pictures");
        for (path, bytes, expected) in [
            ("a.ISO", 2 << 30, "archives"),
            ("iso", 2 << 30, "other"),
            ("a.b", 2 << 20, "pictures"),
            ("a.b", 1 << 20, "documents"),
        ] {
            assert_eq!(name_of(&rules, Class::Documents, path, bytes), expected, "{path}");
        }
    }

    #[test]
    fn size_divides_media_and_databases() {
        let rules = FileRules::default();
        assert_eq!(name_of(&rules, Class::Media, "a.mp4", 1 << 30), "big-media");
        assert_eq!(name_of(&rules, Class::Media, "a.mp3", 4 << 20), "media");
        assert_eq!(name_of(&rules, Class::Databases, "a.db", 1 << 30), "databases");
        assert_eq!(name_of(&rules, Class::Databases, "a.db", (1 << 30) + 1), "big-databases");
        for class in Class::ALL {
            assert_eq!(name_of(&rules, class, "a", 1), class.name());
        }
    }

    #[test]
    fn treatments_are_a_weight_or_an_admission_or_both() {
        let usual = Treatments::default();
        let rules = rules("metadata=4,big-media=usual,archives=0.5 never");
        let of = |name: &str| rules.treatments().of(number_of(name));
        assert_eq!(of("metadata").weight.value(), 4.0);
        assert_eq!(of("metadata").admission, usual.of(number_of("metadata")).admission);
        assert_eq!(of("big-media").admission, ClassAdmission::Usual);
        assert_eq!(of("big-media").weight, usual.of(number_of("big-media")).weight);
        let archives = of("archives");
        assert_eq!((archives.weight.value(), archives.admission), (0.5, ClassAdmission::Never));
        for (text, words) in [
            ("metadata=17", "0.0625 to 16"),
            ("metadata=hot", "second-access"),
            ("films=2", "the classes are unknown, free-space"),
            ("*.iso=2", "is no class"),
        ] {
            let wrong = FileRules::new(&text.parse().expect("syntax")).expect_err(text);
            assert!(wrong.contains(words), "{wrong}");
        }
    }
}
