//! The current directory as a place for images, as `serve` would find it.

use super::{Check, Group, State};
use host::{Direct, FileVolume, Lock, OpenOptions};
use std::io;

/// Large enough for every alignment that is tried.
const BYTES: u64 = 1 << 20;

pub(super) fn checks() -> Vec<Check> {
    match probe() {
        Ok((direct, lock)) => vec![direct_check(&direct), lock_check(&lock)],
        Err(why) => {
            let found =
                format!("not tested: no file can be created in the current directory ({why})");
            let mend = "run overdrive doctor in the directory of your images";
            let both = ["direct I/O", "image locks"];
            both.map(|name| {
                Check::new(Group::Serve, name, State::Limited, found.as_str()).mend(mend)
            })
            .into()
        }
    }
}

/// Opens a temporary image as `serve` would.
fn probe() -> Result<(Direct, Lock), String> {
    // Only the kind of error; the path would be that of the temporary file.
    let words = |error: io::Error| error.kind().to_string();
    let file = tempfile::Builder::new().prefix(".overdrive-doctor-").tempfile_in(".");
    let file = file.map_err(words)?;
    file.as_file().set_len(BYTES).map_err(words)?;
    let volume = FileVolume::open(file.path(), OpenOptions::default());
    let volume = volume.map_err(|error| error.message)?;
    Ok((volume.direct().clone(), volume.lock().clone()))
}

fn direct_check(direct: &Direct) -> Check {
    let check = |state, found| Check::new(Group::Serve, "direct I/O", state, found);
    match direct {
        Direct::Yes => check(State::Ok, "works in the current directory".to_owned()),
        Direct::No(why) => check(State::Limited, format!("not in the current directory: {why}"))
            .mend("keep images on ext4, xfs or btrfs; otherwise the page cache is used as well"),
    }
}

fn lock_check(lock: &Lock) -> Check {
    let check = |state, found| Check::new(Group::Serve, "image locks", state, found);
    match lock {
        Lock::Held => check(State::Ok, "work in the current directory (OFD, as qemu's)".to_owned()),
        Lock::No(why) => check(State::Limited, format!("not in the current directory: {why}"))
            .mend("make sure that no other program writes to a served image"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_reported_with_a_mend_where_it_is_less() {
        assert_eq!(direct_check(&Direct::Yes).state, State::Ok);
        let less = direct_check(&Direct::No("tmpfs".into()));
        assert!(less.state == State::Limited && less.mend.is_some());
        assert_eq!(lock_check(&Lock::Held).mend, None);
        assert!(lock_check(&Lock::No("nfs".into())).found.ends_with("nfs"));
    }
}
