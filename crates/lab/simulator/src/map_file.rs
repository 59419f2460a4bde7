//! A map of a trace's blocks as text: `FIRST_BLOCK BLOCKS CLASS` in each line.
//!
//! Blocks have 4 KiB. Lines are sorted and do not overlap; what follows a `#` is a comment, and
//! empty lines are ignored. Blocks in no line are of the class `unknown`.

use crate::blocks::NUMBER_BITS;
use crate::error::Error;
use policy::{
    CLASSES, CLASSES_MAX, ClassExtent, ClassMap, EXTENTS_MAX, Hints, MapError, Treatments,
    class_by_name,
};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

/// Maximum length of a line: longer ones are no map.
const LINE_BYTES_MAX: u64 = 4096;

/// Reads a map, with the usual treatment of its classes.
///
/// # Errors
/// The file cannot be read, or a line is wrong; the message names it.
pub fn read_hints(path: &Path) -> Result<Hints, Error> {
    Ok(Hints { map: read_map(path)?, treatments: Treatments::default() })
}

/// Returns the name of a class, or its number if only a user's rules have it.
pub fn class_name(number: usize) -> String {
    CLASSES.get(number).map_or_else(|| number.to_string(), |class| class.name.to_owned())
}

fn read_map(path: &Path) -> Result<ClassMap, Error> {
    let place = path.display();
    let failed = |error: std::io::Error| {
        let message = format!("--map {place}: {error}");
        match error.kind() {
            ErrorKind::NotFound => Error::NotFound(message),
            ErrorKind::PermissionDenied => Error::Permission(message),
            _ => Error::Io(message),
        }
    };
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let (mut extents, mut lines, mut line) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1u64.. {
        line.clear();
        let limited = std::io::Read::take(&mut reader, LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if limited.map_err(failed)? == 0 {
            break;
        }
        let wrong = |why: String| Error::Malformed(format!("--map {place}, line {number}: {why}"));
        let extent = std::str::from_utf8(&line).map_err(|_| wrong("is not text".to_owned()));
        let Some(extent) = extent_of(extent?).map_err(wrong)? else { continue };
        if extents.len() == EXTENTS_MAX {
            return Err(wrong(MapError::TooMany.to_string()));
        }
        extents.push(extent);
        lines.push(number);
    }
    ClassMap::new(extents, 1 << NUMBER_BITS).map_err(|error| {
        let (index, why) = match error {
            MapError::Empty(index) => (index, "write at least one block"),
            MapError::Unsorted(index) => {
                (index, "begins before the end of an earlier line; sort the lines")
            }
            MapError::Beyond(index) => (index, "ends behind the largest block of a map"),
            MapError::Class(index, _) => (index, "has no such class"),
            MapError::TooMany => (EXTENTS_MAX, "is one extent too many"),
        };
        let line = lines.get(index).copied().unwrap_or_default();
        Error::Malformed(format!("--map {place}, line {line}: {why}"))
    })
}

/// Returns the extent of a line. None: it has none.
fn extent_of(line: &str) -> Result<Option<ClassExtent>, String> {
    let text = line.split('#').next().unwrap_or_default();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [first, blocks, class] = words[..] else {
        let form = "write FIRST_BLOCK BLOCKS CLASS";
        return if words.is_empty() { Ok(None) } else { Err(form.to_owned()) };
    };
    let number = |text: &str, most: u64| {
        let parsed = text.parse().ok().filter(|number: &u64| *number <= most);
        parsed.ok_or_else(|| format!("'{text}' is not a number of blocks up to {most}"))
    };
    let numbered = || class.parse().ok().filter(|class| usize::from(*class) < CLASSES_MAX);
    let class = class_by_name(class).or_else(numbered).ok_or_else(|| {
        let names: Vec<&str> = CLASSES.iter().map(|class| class.name).collect();
        format!("there is no class '{class}'; choose one of {}", names.join(", "))
    })?;
    let (first, blocks) = (number(first, u64::MAX)?, number(blocks, u32::MAX.into())? as u32);
    Ok(Some(ClassExtent { first, blocks, class }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &[u8]) -> Result<ClassMap, String> {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), text).expect("written");
        read_map(file.path()).map_err(|error| match error {
            Error::Malformed(message) => message,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn lines_are_extents_with_classes_by_name_or_number() {
        let map =
            parsed(b"# a disk\n0 10 metadata\n\n10 5 15 # a rule's class\n 100\t7  free-space\r\n");
        let map = map.expect("a map");
        let of = |block| map.class_of(block);
        assert_eq!([of(9), of(10), of(15), of(106), of(107)], [2, 15, 0, 1, 0]);
        assert_eq!(parsed(b"").expect("an empty map").count(), 0);
    }

    #[test]
    fn the_wrong_line_is_named() {
        for (text, line, why) in [
            ("0 10 metadata\n5 1 free-space\n", 2, "sort the lines"),
            ("# x\n\n0 0 free-space\n", 3, "at least one block"),
            ("0 10 film\n", 1, "there is no class 'film'"),
            ("0 10 16\n", 1, "there is no class '16'"),
            ("0 10\n", 1, "write FIRST_BLOCK"),
            ("0 10 free-space 3\n", 1, "write FIRST_BLOCK"),
            ("-1 10 free-space\n", 1, "'-1' is not a number"),
            ("0 4294967296 free-space\n", 1, "'4294967296' is not a number"),
            ("281474976710656 1 free-space\n", 1, "behind the largest block"),
        ] {
            let message = parsed(text.as_bytes()).expect_err("it is wrong");
            let place = format!(", line {line}: ");
            assert!(message.contains(&place) && message.contains(why), "{text:?}: {message}");
        }
        assert!(parsed(&[0xff, b'\n']).expect_err("it is wrong").contains("is not text"));
        assert!(parsed(&vec![b' '; 1 << 20]).is_ok(), "blanks are no extents");
        let absent = read_map(Path::new("/of/no/map"));
        assert!(matches!(absent, Err(Error::NotFound(_))));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parsed(&text);
        }
    }
}
