//! Verifies data.

use super::children::Children;
use crate::tools;
use stack::{Exit, Failure};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::Command;

const CHUNK: usize = 1 << 20;

/// Returns the first position where two files differ; a shorter file differs at its end.
fn difference(one: &Path, other: &Path) -> io::Result<Option<u64>> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (mut first, mut second) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut position = 0;
    loop {
        let (have, has) = (fill(&mut one, &mut first)?, fill(&mut other, &mut second)?);
        if first[..have] != second[..has] {
            let same = first[..have].iter().zip(&second[..has]).take_while(|(a, b)| a == b);
            return Ok(Some(position + same.count() as u64));
        }
        if have == 0 {
            return Ok(None);
        }
        position += have as u64;
    }
}

fn fill(file: &mut File, chunk: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < chunk.len() {
        match file.read(&mut chunk[have..])? {
            0 => break,
            more => have += more,
        }
    }
    Ok(have)
}

/// Checks that a file equals the reference.
///
/// # Errors
/// An integrity failure that names the check and the position of the difference.
pub(super) fn same(what: &str, found: &Path, reference: &Path) -> Result<(), Failure> {
    match difference(found, reference) {
        Ok(None) => Ok(()),
        Ok(Some(at)) => {
            let message = format!("{what} is wrong from byte {at} on; please report this");
            Err(Failure::new(Exit::Integrity, message))
        }
        Err(error) => Err(Failure::new(Exit::Io, format!("{what} cannot be compared: {error}"))),
    }
}

/// Checks that the file system at the start of an image is consistent.
///
/// # Errors
/// An integrity failure with the output of e2fsck.
pub(super) fn file_system(children: &Children, what: &str, image: &Path) -> Result<(), Failure> {
    let mut command = Command::new(tools::find("e2fsck").unwrap_or("e2fsck".into()));
    let mut running =
        children.start("e2fsck", command.arg("-fn").arg(image), std::process::Stdio::null())?;
    let status = children.wait(&mut running, &mut || ())?;
    if status.success() {
        return Ok(());
    }
    let message = format!("the file system of {what} is damaged (e2fsck: {status})");
    Err(Failure::new(Exit::Integrity, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found() {
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        let mut bytes = vec![7u8; CHUNK + 5000];
        std::fs::write(path("a"), &bytes).expect("written");
        std::fs::write(path("b"), &bytes).expect("written");
        assert_eq!(difference(&path("a"), &path("b")).expect("read"), None);
        bytes[CHUNK + 17] ^= 1;
        std::fs::write(path("b"), &bytes).expect("written");
        assert_eq!(difference(&path("a"), &path("b")).expect("read"), Some(CHUNK as u64 + 17));
        std::fs::write(path("b"), &bytes[..CHUNK]).expect("written");
        assert_eq!(difference(&path("a"), &path("b")).expect("read"), Some(CHUNK as u64));
        assert!(same("it", &path("a"), &path("missing")).is_err());
        let failure = same("it", &path("a"), &path("b")).expect_err("it differs");
        assert_eq!(failure.exit, Exit::Integrity);
    }
}
