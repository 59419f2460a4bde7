//! Files that are not traces but contain one: unsupported compressions and archives, blktrace's
//! binary output, text in UTF-16. The error names the kind, and the command that converts it.

use crate::compressed::Compression;
use std::path::Path;

/// A kind of file that is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Foreign {
    Bzip2,
    Lz4,
    Lzip,
    Compress,
    Zip,
    SevenZip,
    Tar,
    Blktrace,
    Utf16,
}

impl Foreign {
    /// Returns the kind of a file that begins with these bytes.
    fn of(start: &[u8]) -> Option<Foreign> {
        let begins = |mark: &[u8]| start.starts_with(mark);
        let at = |place: usize, mark: &[u8]| {
            start.get(place..).is_some_and(|rest| rest.starts_with(mark))
        };
        // A bzip2 file starts with a block or, if it is empty, with its end.
        let is_bzip2 = begins(b"BZh") && (at(4, b"1AY&SY") || at(4, b"\x17rE8P\x90"));
        if is_bzip2 {
            Some(Foreign::Bzip2)
        } else if begins(&[0x04, 0x22, 0x4d, 0x18]) || begins(&[0x02, 0x21, 0x4c, 0x18]) {
            Some(Foreign::Lz4)
        } else if begins(b"LZIP") {
            Some(Foreign::Lzip)
        } else if matches!(start, [0x1f, 0x9d, 0x89..=0x90, ..]) {
            Some(Foreign::Compress)
        } else if begins(b"PK\x03\x04") || begins(b"PK\x05\x06") {
            Some(Foreign::Zip)
        } else if begins(b"7z\xbc\xaf\x27\x1c") {
            Some(Foreign::SevenZip)
        } else if at(257, b"ustar") {
            Some(Foreign::Tar)
        } else if begins(b"\x07tae") || begins(b"eat\x07") {
            // Version 7 is in the low byte of the magic number, in the byte order of the machine.
            Some(Foreign::Blktrace)
        } else if is_utf16(start) {
            Some(Foreign::Utf16)
        } else {
            None
        }
    }

    fn name(self) -> &'static str {
        match self {
            Foreign::Bzip2 => "compressed by bzip2",
            Foreign::Lz4 => "compressed by lz4",
            Foreign::Lzip => "compressed by lzip",
            Foreign::Compress => "compressed by compress",
            Foreign::Zip => "a zip archive",
            Foreign::SevenZip => "a 7z archive",
            Foreign::Tar => "a tar archive",
            Foreign::Blktrace => "blktrace's binary output",
            Foreign::Utf16 => "text in UTF-16",
        }
    }

    /// Returns the command that converts the file of this path.
    fn advice(self, path: &str) -> String {
        let (file, unpacked, text) =
            (quote(path), quote(&unpacked(path)), quote(&free(format!("{path}.txt"))));
        let convert = |command: String| format!("convert it: {command}");
        let unpack = |command: String| format!("unpack it, and name a trace in it: {command}");
        match self {
            Foreign::Bzip2 => convert(format!("bzip2 -dc {file} > {unpacked}")),
            Foreign::Lz4 => convert(format!("lz4 -dc {file} > {unpacked}")),
            Foreign::Lzip => convert(format!("lzip -dc {file} > {unpacked}")),
            Foreign::Compress => convert(format!("gzip -dc {file} > {unpacked}")),
            Foreign::Zip => unpack(format!("unzip {file}")),
            Foreign::SevenZip => unpack(format!("7z x {file}")),
            Foreign::Tar => unpack(format!("tar -xkf {file}")),
            Foreign::Utf16 => convert(format!("iconv -f UTF-16 -t UTF-8 {file} > {text}")),
            // blktrace writes a file for each processor: blkparse finds them by the name before
            // ".blktrace".
            Foreign::Blktrace => convert(match path.rsplit_once(".blktrace.") {
                Some((base, _)) => {
                    format!(
                        "blkparse -i {} -o {}",
                        quote(base),
                        quote(&free(format!("{base}.txt")))
                    )
                }
                None => format!("blkparse -i - < {file} > {text}"),
            }),
        }
    }
}

/// Whether the text has two bytes per letter: a byte order mark, and letters with one half zero.
fn is_utf16(start: &[u8]) -> bool {
    let is_letter = |byte: u8| (b' '..0x7f).contains(&byte);
    match start {
        [0xff, 0xfe, letter, 0, ..] | [0xfe, 0xff, 0, letter, ..] => is_letter(*letter),
        _ => false,
    }
}

/// Returns the sentence that refuses a file of another kind, if it is one. `start`: its first
/// bytes, decompressed if the compression is supported.
pub(crate) fn refusal(start: &[u8], path: &Path, compression: Compression) -> Option<String> {
    let kind = Foreign::of(start)?;
    let path = path.display().to_string();
    let (name, program) = (kind.name(), compression.program());
    let advice = match program {
        // tar decompresses these itself.
        Some(program) if kind != Foreign::Tar => {
            let inner = unpacked(&path);
            let (file, unpacked) = (quote(&path), quote(&inner));
            format!("unpack it: {program} -dc {file} > {unpacked}, then {}", kind.advice(&inner))
        }
        _ => kind.advice(&path),
    };
    Some(format!("is {name}, which is not supported; {advice}"))
}

/// Returns the path without the ending of its compression, or with an added ending if it has none.
/// No file has the returned path.
fn unpacked(path: &str) -> String {
    let endings = [".bz2", ".lz4", ".lz", ".Z", ".gz", ".xz", ".zst"];
    let stem = endings.iter().find_map(|ending| path.strip_suffix(ending));
    free(match stem {
        Some(stem) if !stem.is_empty() && !stem.ends_with('/') => stem.to_owned(),
        _ => format!("{path}.unpacked"),
    })
}

/// Returns the path, with a number if a file of this path exists: the commands overwrite their
/// targets.
fn free(path: String) -> String {
    let is_free = |path: &String| std::fs::symlink_metadata(path).is_err();
    let numbered = (1..1000).map(|number| format!("{path}.{number}"));
    std::iter::once(path.clone()).chain(numbered).find(is_free).unwrap_or(path)
}

/// Quotes the path as one word of a shell command.
fn quote(path: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+@%".contains(letter);
    if !path.is_empty() && path.chars().all(is_plain) && !path.starts_with('-') {
        return path.to_owned();
    }
    let start = if path.starts_with('-') { "./" } else { "" };
    format!("'{start}{}'", path.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice_for(path: &str) -> String {
        refusal_text(b"BZh91AY&SYxx", path, Compression::None)
    }

    fn refusal_text(start: &[u8], path: &str, compression: Compression) -> String {
        refusal(start, Path::new(path), compression).unwrap_or_default()
    }

    #[test]
    fn files_of_other_kinds_are_named_with_what_converts_them() {
        let mut tar = [0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        let blktrace = [&b"\x07tae"[..], &[0; 60]].concat();
        for (start, path, compression, says) in [
            (&b"BZh91AY&SYxx"[..], "a.csv.bz2", Compression::None, "bzip2 -dc a.csv.bz2 > a.csv"),
            (&b"\x04\x22\x4d\x18x"[..], "a b", Compression::None, "lz4 -dc 'a b' > 'a b.unpacked'"),
            (b"PK\x03\x04x", "t.zip", Compression::None, "name a trace in it: unzip t.zip"),
            (
                &tar,
                "t.tgz",
                Compression::Gzip,
                "tar archive, which is not supported; unpack it, and name",
            ),
            (&blktrace, "/x/sda.blktrace.0", Compression::None, "blkparse -i /x/sda -o /x/sda.txt"),
            (&blktrace, "-all", Compression::None, "blkparse -i - < './-all' > './-all.txt'"),
            (
                &blktrace,
                "sda.blktrace.1.xz",
                Compression::Xz,
                "unpack it: xz -dc sda.blktrace.1.xz > sda.blktrace.1, then convert it: blkparse -i sda ",
            ),
            (b"\xff\xfeR\0,\0", "t.csv", Compression::None, "iconv -f UTF-16 -t UTF-8 t.csv"),
        ] {
            let message = refusal_text(start, path, compression);
            assert!(message.contains(says), "{path}: {message}");
        }
        // Nothing that exists is overwritten.
        let home = tempfile::tempdir().expect("a directory");
        let there = home.path().join("a.csv");
        std::fs::write(&there, "R,0,1").expect("written");
        let path = format!("{}.bz2", there.display());
        let advised = advice_for(&path);
        assert!(advised.ends_with(&format!("{}.1", there.display())), "{advised}");
        for known in [&b"R,0,4096"[..], b"", b"BZh9,R", b"eat,1,2", b"PK,0,1"] {
            assert_eq!(refusal_text(known, "x", Compression::None), "");
        }
    }
}
