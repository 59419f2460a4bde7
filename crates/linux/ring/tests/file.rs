//! The file backend on regular files: direct and buffered, with all kinds of requests.

mod common;

use block::{Buf, Discard, Extent, Kind, Memory, Request, Stack};
use common::{DEFAULT, filled, image, in_pieces, read, ring, run, stack, write, zero};
use host::{Direct, FileVolume, Lock, OpenErrorKind, OpenOptions};
use ring::{FileBackend, Ring};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

const BUFFERED: OpenOptions = OpenOptions { read_only: false, buffered: true, is_shared: false };

/// Returns a directory on a file system that supports direct I/O (that of the build), or on one
/// that keeps files in memory.
fn directory(parent: &str) -> tempfile::TempDir {
    tempfile::tempdir_in(parent).expect("a directory")
}

fn build_directory() -> tempfile::TempDir {
    directory(env!("CARGO_TARGET_TMPDIR"))
}

fn contents(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the image")
}

/// Writes in pieces at queue depth 32, reads back in other pieces, compares with the file.
fn round_trip(parent: &str, options: OpenOptions) {
    const BLOCKS: u64 = 256;
    const SECTORS: u32 = 24;
    let directory = directory(parent);
    let bytes = BLOCKS * u64::from(SECTORS) * 512;
    let path = image(directory.path(), bytes);
    let ring = ring();
    let (_volume, stack) = stack(&path, options, &ring);
    let next = Rc::new(std::cell::Cell::new(0));
    for _ in 0..32 {
        let (stack, next) = (stack.clone(), next.clone());
        let worker = async move {
            while next.get() < BLOCKS {
                let block = next.replace(next.get() + 1);
                let first = block * u64::from(SECTORS);
                let from = in_pieces(3, SECTORS / 3);
                let text: Vec<u8> =
                    (0..from.bytes()).map(|n| (n as u64 / 512 + block) as u8).collect();
                from.write(&text);
                let fua = block % 16 == 0;
                stack.run(write(first, &from, fua)).await.expect("written");
                let into = in_pieces(2, SECTORS / 2);
                stack.run(read(first, &into)).await.expect("read");
                assert!(into.to_vec() == text, "block {block}");
                assert_eq!(stack.run(Request::Flush).await, Ok(()));
            }
        };
        ring.lane().spawn(worker).expect("a slot is free");
    }
    ring.run(|| ring.lane().tasks() == 0).expect("the loop runs");
    let all = contents(&path);
    assert_eq!(all.len() as u64, bytes);
    for (sector, bytes) in all.chunks(512).enumerate() {
        let (block, within) = (sector / SECTORS as usize, sector % SECTORS as usize);
        assert!(bytes.iter().all(|byte| *byte == (block + within) as u8), "sector {sector}");
    }
}

#[test]
fn round_trip_direct() {
    round_trip(env!("CARGO_TARGET_TMPDIR"), DEFAULT);
}

#[test]
fn round_trip_buffered() {
    round_trip(env!("CARGO_TARGET_TMPDIR"), BUFFERED);
}

#[test]
fn round_trip_in_memory() {
    round_trip("/dev/shm", DEFAULT);
}

#[test]
fn facts_are_stated() {
    let directory = build_directory();
    let path = image(directory.path(), 1 << 20);
    let volume = FileVolume::open(&path, DEFAULT).expect("an image");
    println!("{:?} {:?} {:?}", volume.direct(), volume.lock(), volume.limits());
    let limits = volume.limits();
    assert_eq!((limits.bytes(), limits.grain), (1 << 20, 512));
    assert_eq!(limits.block_physical_bytes, 4096);
    assert!(limits.flush_needed && !limits.read_only && !volume.is_device());
    assert_eq!(volume.lock(), &Lock::Held);
    drop(volume);
    let volume = FileVolume::open(&path, BUFFERED).expect("an image");
    assert!(matches!(volume.direct(), Direct::No(why) if why.contains("requested")));
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let volume = FileVolume::open(&image(directory.path(), 4096), DEFAULT).expect("an image");
    assert!(matches!(volume.direct(), Direct::No(why) if why.contains("in memory")));
}

#[test]
fn single_sectors_and_misaligned_memory() {
    for options in [DEFAULT, BUFFERED] {
        let directory = build_directory();
        let path = image(directory.path(), 4 << 20);
        let ring = ring();
        let (volume, stack) = stack(&path, options, &ring);
        if volume.limits().block_logical_bytes > 512 {
            println!("skipped: the file system under the build has larger blocks");
            return;
        }
        run(&ring, &stack, write(0, &filled(16, 1), false)).expect("written");
        run(&ring, &stack, write(3, &filled(1, 2), true)).expect("one sector");
        // More than one bounce buffer, at an address that is a multiple of 8 only.
        let memory = Arc::new(Memory::heap((3 << 20) + 8));
        let odd = Buf::from_memory(memory.clone(), 8, 1500, 512);
        odd.write(&[3; 1500 * 512]);
        run(&ring, &stack, write(9, &odd, false)).expect("from an odd address");
        odd.zero();
        run(&ring, &stack, read(9, &odd)).expect("to an odd address");
        assert!(odd.to_vec().iter().all(|byte| *byte == 3));
        let all = contents(&path);
        let expected = |sector| match sector {
            3 => 2,
            0..9 => 1,
            9..1509 => 3,
            _ => 0,
        };
        for (sector, bytes) in all.chunks(512).enumerate() {
            assert!(bytes.iter().all(|byte| *byte == expected(sector)), "sector {sector}");
        }
    }
}

#[test]
fn more_pieces_than_the_kernel_takes() {
    let directory = build_directory();
    let path = image(directory.path(), 4 << 20);
    let ring = ring();
    let (_volume, stack) = stack(&path, DEFAULT, &ring);
    let from = in_pieces(3000, 1);
    let text: Vec<u8> = (0..from.bytes()).map(|n| (n / 512 % 251) as u8).collect();
    from.write(&text);
    run(&ring, &stack, write(8, &from, false)).expect("written");
    assert!(contents(&path)[4096..4096 + text.len()] == text);
    let into = in_pieces(1500, 2);
    run(&ring, &stack, read(8, &into)).expect("read");
    assert!(into.to_vec() == text);
}

#[test]
fn zeroes_and_discards() {
    for parent in [env!("CARGO_TARGET_TMPDIR"), "/dev/shm"] {
        let directory = directory(parent);
        let path = image(directory.path(), 8 << 20);
        let ring = ring();
        let (_volume, stack) = stack(&path, DEFAULT, &ring);
        let all = stack.limits().sectors as u32;
        run(&ring, &stack, write(0, &filled(all, 9), true)).expect("written");
        let full = std::fs::metadata(&path).expect("it is there").blocks();
        // Unaligned ends, and more than one chunk of zeros if the kernel cannot write zeros itself.
        run(&ring, &stack, zero(3, 5000, false)).expect("zeroed");
        run(&ring, &stack, zero(6001, 1003, true)).expect("zeroed and unmapped");
        let discard = Request::Discard { at: Extent::new(8000, 8000) };
        run(&ring, &stack, discard).expect("discarded");
        let gone = match stack.limits().discard {
            Discard::Zeroes => 8000..16000,
            Discard::Ignored => 0..0,
        };
        for (sector, bytes) in contents(&path).chunks(512).enumerate() {
            let zero = (3..5003).contains(&sector)
                || (6001..7004).contains(&sector)
                || gone.contains(&sector);
            let expected = if zero { 0 } else { 9 };
            assert!(bytes.iter().all(|byte| *byte == expected), "{parent}: sector {sector}");
        }
        if stack.limits().discard == Discard::Zeroes {
            let left = std::fs::metadata(&path).expect("it is there").blocks();
            assert!(left + 7900 < full, "{parent}: of {full} blocks {left} are left");
        }
        assert_eq!(contents(&path).len(), 8 << 20, "nothing grew");
    }
}

#[test]
fn a_backing_that_shrinks_is_an_error() {
    for options in [DEFAULT, BUFFERED] {
        let directory = build_directory();
        let path = image(directory.path(), 1 << 20);
        let ring = ring();
        let (_volume, stack) = stack(&path, options, &ring);
        let file = std::fs::File::options().write(true).open(&path).expect("it is ours");
        file.write_all_at(&[5; 8192], 0).expect("room");
        file.set_len(8192).expect("it is ours");
        let inside = Buf::new(16, 512);
        assert_eq!(run(&ring, &stack, read(0, &inside)), Ok(()));
        assert_eq!(inside.to_vec(), [5; 8192]);
        for (first, count) in [(8, 16), (16, 8), (1000, 8)] {
            let result = run(&ring, &stack, read(first, &Buf::new(count, 512)));
            let error = result.expect_err("nothing is there");
            assert_eq!((error.kind, error.errno), (Kind::Io, 0));
            assert!(error.to_string().contains("has shrunk"), "{error}");
        }
    }
}

#[test]
fn a_backing_that_shrank_fails_flushes_and_does_not_grow_again() {
    for (parent, options) in [
        (env!("CARGO_TARGET_TMPDIR"), DEFAULT),
        (env!("CARGO_TARGET_TMPDIR"), BUFFERED),
        ("/dev/shm", DEFAULT),
    ] {
        let directory = directory(parent);
        let path = image(directory.path(), 1 << 20);
        let ring = ring();
        let (_volume, stack) = stack(&path, options, &ring);
        run(&ring, &stack, write(0, &filled(32, 1), true)).expect("all is there");
        assert_eq!(run(&ring, &stack, Request::Flush), Ok(()));
        let file = std::fs::File::options().write(true).open(&path).expect("it is ours");
        file.set_len(8192).expect("it is ours");
        let discard = Request::Discard { at: Extent::new(1000, 8) };
        let mut beyond = vec![
            write(16, &filled(8, 2), false),
            write(8, &filled(16, 2), true),
            // The last blocks: writing them would restore the file's old length.
            write(2040, &filled(8, 2), false),
            zero(1000, 8, false),
            zero(1000, 8, true),
            Request::Flush,
        ];
        if stack.limits().discard == Discard::Zeroes {
            beyond.push(discard);
        }
        for request in beyond {
            let error = run(&ring, &stack, request.clone()).expect_err("nothing is there");
            assert_eq!(error.kind, Kind::Io, "{request:?}");
            assert!(error.doing.contains("has shrunk"), "{error}");
            assert_eq!(contents(&path).len(), 8192, "{parent}: {request:?} made it grow");
        }
        // The rest is usable; but all flushes fail, even if the file grows again.
        assert_eq!(run(&ring, &stack, write(0, &filled(16, 3), false)), Ok(()));
        assert_eq!(run(&ring, &stack, read(0, &filled(16, 0))), Ok(()));
        file.set_len(1 << 20).expect("it is ours");
        let flushed = run(&ring, &stack, Request::Flush).expect_err("the bytes did not come back");
        assert!(flushed.doing.contains("has shrunk"), "{flushed}");
    }
}

/// Returns the stack's status of `at`, as lengths and whether each stretch is a hole.
fn status_of(ring: &Ring, stack: &Stack, at: Extent) -> Vec<(u64, bool)> {
    let list = ring.block_on(stack.status(at)).expect("the loop runs").expect("it answers");
    assert!(list.iter().all(|stretch| stretch.hole == stretch.zero));
    list.iter().map(|stretch| (stretch.sectors, stretch.hole)).collect()
}

#[test]
fn holes_are_reported() {
    for parent in [env!("CARGO_TARGET_TMPDIR"), "/dev/shm"] {
        let directory = directory(parent);
        let path = image(directory.path(), 1 << 20);
        let ring = ring();
        let (_volume, stack) = stack(&path, DEFAULT, &ring);
        let all = Extent::new(0, 2048);
        assert_eq!(status_of(&ring, &stack, all), [(2048, true)], "{parent}");
        for first in [64, 1024] {
            run(&ring, &stack, write(first, &filled(64, 1), true)).expect("written");
        }
        let expected = [(64, true), (64, false), (896, true), (64, false), (960, true)];
        assert_eq!(status_of(&ring, &stack, all), expected, "{parent}");
        assert_eq!(status_of(&ring, &stack, Extent::new(100, 10)), [(10, false)]);
        assert_eq!(status_of(&ring, &stack, Extent::new(126, 10)), [(2, false), (8, true)]);
        // The part that was cut off is neither a hole nor zeros.
        let file = std::fs::File::options().write(true).open(&path).expect("it is ours");
        file.set_len(8192).expect("it is ours");
        assert_eq!(status_of(&ring, &stack, Extent::new(1500, 8)), [(8, false)]);
    }
}

#[test]
fn a_description_that_was_kept_is_a_volume_again() {
    let directory = build_directory();
    let path = image(directory.path(), 1 << 20);
    let first = FileVolume::open(&path, DEFAULT).expect("an image");
    let (identity, key) = (first.identity(), first.key());
    let found = std::fs::metadata(&path).expect("it is there");
    assert_eq!(key, format!("file-{}-{}", found.dev(), found.ino()));
    let kept = first.file().try_clone().expect("a descriptor");
    let (direct, limits) = (first.direct().clone(), first.limits().clone());
    drop(first);
    let stranger =
        FileVolume::open(&path, DEFAULT).expect_err("the process that keeps it has the lock");
    assert_eq!(stranger.kind, OpenErrorKind::Busy);
    let again = FileVolume::from_file(&path, kept.try_clone().expect("one more"), DEFAULT);
    let again = again.expect("as it was");
    assert_eq!((again.identity(), again.key(), again.note()), (identity, key, None));
    assert_eq!((again.direct(), again.limits(), again.lock()), (&direct, &limits, &Lock::Held));
    let ring = ring();
    let stack = Stack::new(ring.lane(), FileBackend::attach(&again, &ring));
    run(&ring, &stack, write(8, &filled(8, 6), true)).expect("written");
    assert_eq!(contents(&path)[4096..8192], [6; 4096]);
    let buffered = FileVolume::from_file(&path, kept.try_clone().expect("one more"), BUFFERED);
    assert!(matches!(buffered.expect("as it was").direct(), Direct::No(_)));

    std::fs::rename(&path, directory.path().join("elsewhere")).expect("it is ours");
    let gone = FileVolume::from_file(&path, kept.try_clone().expect("one more"), DEFAULT);
    let gone = gone.expect("the description still is what it was");
    assert!(gone.note().expect("worth a word").contains("no longer exists"), "{:?}", gone.note());
    assert_eq!(gone.identity(), identity);
    image(directory.path(), 1 << 20);
    let error = FileVolume::from_file(&path, kept, DEFAULT).expect_err("another file");
    assert_eq!(error.kind, OpenErrorKind::Busy);
    assert!(error.message.contains("is no longer the file"), "{error}");
}

#[test]
fn what_was_kept_must_suit() {
    let directory = build_directory();
    let path = image(directory.path(), 1 << 20);
    let reader = std::fs::File::open(&path).expect("it is ours");
    let error = FileVolume::from_file(&path, reader.into(), DEFAULT).expect_err("not writable");
    assert_eq!(error.kind, OpenErrorKind::ReadOnly);
    // A description without locks gets them, but not if another description has them.
    let plain = || std::fs::File::options().read(true).write(true).open(&path).expect("ours");
    let first = FileVolume::from_file(&path, plain().into(), DEFAULT).expect("it is free");
    assert_eq!(first.lock(), &Lock::Held);
    let second = FileVolume::from_file(&path, plain().into(), DEFAULT).expect_err("the first");
    assert_eq!(second.kind, OpenErrorKind::Busy);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a foreign thread lets go of the lock after a while")]
fn a_busy_lock_is_waited_for() {
    let directory = build_directory();
    let path = image(directory.path(), 1 << 20);
    let first = FileVolume::open(&path, DEFAULT).expect("it is free");
    let start = std::time::Instant::now();
    let error = FileVolume::open_waiting(&path, DEFAULT, 50).expect_err("it is held");
    assert_eq!(error.kind, OpenErrorKind::Busy);
    assert!(start.elapsed().as_millis() >= 50);
    let holder = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(first);
    });
    FileVolume::open_waiting(&path, DEFAULT, 30_000).expect("it was let go");
    assert!(start.elapsed().as_secs() < 20);
    holder.join().expect("it ends");
    let missing = FileVolume::open_waiting(&directory.path().join("no"), DEFAULT, 30_000);
    assert_eq!(missing.expect_err("nothing to wait for").kind, OpenErrorKind::NotFound);
}

#[test]
fn read_only_is_read_only() {
    let directory = build_directory();
    let path = image(directory.path(), 1 << 20);
    let options = OpenOptions { read_only: true, buffered: false, is_shared: false };
    let ring = ring();
    let (_first, stack) = stack(&path, options, &ring);
    let _second = FileVolume::open(&path, options).expect("two may read");
    assert!(stack.limits().read_only);
    assert_eq!(run(&ring, &stack, read(0, &Buf::new(8, 512))), Ok(()));
    let refused = run(&ring, &stack, write(0, &filled(8, 1), false));
    assert_eq!(refused.expect_err("read-only").kind, Kind::ReadOnly);
    let writer = FileVolume::open(&path, DEFAULT).expect_err("readers are there");
    assert_eq!(writer.kind, OpenErrorKind::Busy);
}

#[test]
fn two_writers_are_one_too_many() {
    let directory = build_directory();
    let path = image(directory.path(), 1 << 20);
    let first = FileVolume::open(&path, DEFAULT).expect("it is free");
    let error = FileVolume::open(&path, DEFAULT).expect_err("it is in use");
    assert_eq!(error.kind, OpenErrorKind::Busy);
    assert!(error.to_string().contains("locked by another program"), "{error}");
    drop(first);
    FileVolume::open(&path, DEFAULT).expect("it is free again");
}

#[test]
fn what_cannot_be_served_is_refused_with_the_mend() {
    let directory = build_directory();
    let refuse = |path: &Path| FileVolume::open(path, DEFAULT).expect_err("not to be served");
    let missing = refuse(&directory.path().join("missing"));
    assert_eq!(missing.kind, OpenErrorKind::NotFound);
    assert_eq!(refuse(directory.path()).kind, OpenErrorKind::Unsupported);
    assert_eq!(refuse(Path::new("/dev/null")).kind, OpenErrorKind::Unsupported);
    let path = directory.path().join("image");
    for (bytes, kind, mend) in [
        (0, OpenErrorKind::TooSmall, "truncate -s 10G"),
        (511, OpenErrorKind::TooSmall, "too small for an image"),
        (5000, OpenErrorKind::Misaligned, "truncate -s %512 COPY"),
    ] {
        std::fs::write(&path, vec![0; bytes]).expect("room");
        let error = refuse(&path);
        assert_eq!(error.kind, kind, "{error}");
        let text = error.to_string();
        assert!(text.contains(mend) && text.contains("image"), "{text}");
    }
}

#[test]
fn a_write_dropped_in_flight_harms_nobody() {
    let directory = build_directory();
    let path = image(directory.path(), 8 << 20);
    let ring = ring();
    let (volume, stack) = stack(&path, DEFAULT, &ring);
    let from = filled(8192, 4);
    let memory = Arc::downgrade(&from.keep());
    ring.lane()
        .spawn({
            let request = write(0, &from, false);
            async move {
                let _ = stack.run(request).await;
            }
        })
        .expect("a slot is free");
    drop(from);
    let mut rounds = 0;
    ring.run(|| {
        rounds += 1;
        rounds == 1
    })
    .expect("the loop runs");
    let open = ring.in_flight();
    ring.lane().abandon();
    drop(volume);
    if open > 0 {
        assert!(memory.upgrade().is_some(), "the kernel still reads from it");
    }
    ring.run(|| ring.in_flight() == 0).expect("the loop runs");
    assert!(memory.upgrade().is_none(), "it is freed afterwards");
    FileVolume::open(&path, DEFAULT).expect("the lock goes with the last I/O");
}
