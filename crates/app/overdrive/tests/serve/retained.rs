//! Cached blocks that outlive a daemon, and programs that change its image meanwhile (C9).

use crate::common::{Server, have, have_libnbd, image, is_root, place, python, run, wait_until};
use crate::home::Home;
use crate::mounted::plain;
use crate::settings::counter;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
/// The image's size.
const SIZE_MIB: u64 = 8;
/// Arguments: URI, and for each MiB the byte that it must be filled with.
const READ: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
for n, byte in enumerate(sys.argv[2:]):
    for at in range(0, 1 << 20, 65536):
        data = h.pread(65536, (n << 20) + at)
        if data != bytes([int(byte)]) * 65536: sys.exit(f"MiB {n}, byte {at}: starts with {data[0]}")
"#;
/// Arguments: URI, a MiB, the byte to fill it with.
const WRITE: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
at, byte = int(sys.argv[2]) << 20, int(sys.argv[3])
for offset in range(0, 1 << 20, 65536): h.pwrite(bytes([byte]) * 65536, at + offset)
"#;

/// An image whose MiBs each have a byte of their own, and its server, with all of it in memory.
struct Scene {
    _place: TempDir,
    image: PathBuf,
    server: Server,
    bytes: Vec<u8>,
}

/// Fills a MiB of a file with a byte.
fn fill(file: &File, mib: u64, byte: u8) {
    file.write_all_at(&vec![byte; MIB as usize], mib * MIB).expect("room");
}

impl Scene {
    fn new() -> Scene {
        let place = place();
        let image = image(&place, SIZE_MIB);
        let bytes: Vec<u8> = (1..=SIZE_MIB as u8).collect();
        let file = OpenOptions::new().write(true).open(&image).expect("ours");
        (0..SIZE_MIB).zip(&bytes).for_each(|(mib, byte)| fill(&file, mib, *byte));
        file.sync_all().expect("a disk");
        drop(file);
        // On a busy machine, the guard could bypass the cache.
        let server = Server::start(&image, &["--memory", "16M", "--guard", "off"]);
        let scene = Scene { _place: place, image, server, bytes };
        scene.read();
        scene
    }

    /// Reads all of the volume; asserts that it is as it should be.
    fn read(&self) {
        let bytes = self.bytes.iter().map(u8::to_string).collect::<Vec<_>>();
        let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
        python(READ, &[&[self.server.uri.as_str()], &bytes[..]].concat()).well();
    }

    fn write(&mut self, mib: usize, byte: u8) {
        python(WRITE, &[&self.server.uri, &mib.to_string(), &byte.to_string()]).well();
        self.bytes[mib] = byte;
    }

    /// Kills the server, lets `meanwhile` happen to the image, and starts it again.
    fn killed(self, meanwhile: impl FnOnce(&Path, &mut Vec<u8>)) -> Scene {
        self.killed_with("16M", meanwhile)
    }

    /// As [`Scene::killed`], with this memory from now on.
    fn killed_with(self, memory: &str, meanwhile: impl FnOnce(&Path, &mut Vec<u8>)) -> Scene {
        let Scene { _place, image, server, mut bytes } = self;
        let home = server.kill();
        meanwhile(&image, &mut bytes);
        let server = Server::start_in(&home, &image, &["--memory", memory, "--guard", "off"]);
        Scene { _place, image, server, bytes }
    }

    /// Reads all of it, and returns the blocks that were retained, clean or dirty, and the requests
    /// that were sent to the backing.
    fn retained(&self) -> (u64, u64) {
        self.read();
        let count = |name| counter(&self.server, name);
        (count("blocks_retained") + count("blocks_recovered"), count("read_misses"))
    }
}

const ALL: u64 = SIZE_MIB * MIB / 4096;

/// Whether the images are on a file system where clean blocks are kept.
fn is_local() -> bool {
    let place = place();
    let kind = run("stat", &["-f", "-c", "%T", plain(place.path())]).well();
    let is_local = ["ext2/ext3", "xfs", "btrfs", "tmpfs", "f2fs"].contains(&kind.stdout.trim());
    if !is_local {
        println!("skipped: images lie on {}", kind.stdout.trim());
    }
    is_local
}

#[test]
fn a_killed_daemon_s_cached_blocks_are_served_by_the_next_one() {
    if !have_libnbd() || !is_local() {
        return;
    }
    let mut scene = Scene::new();
    for life in 0..3 {
        // Written through, because the client does not flush: a held copy, which becomes dirty.
        if life == 1 {
            scene.write(3, 77);
        }
        scene = scene.killed(|_, _| ());
        assert_eq!(scene.retained(), (ALL, 0), "life {life}");
    }
    assert_eq!(counter(&scene.server, "blocks_retained_used"), ALL);
    let said = scene.server.volume(&["stats"]).well().stdout;
    assert!(said.contains("8 MiB of cached data from an earlier process"), "{said}");
    let took_ns = counter(&scene.server, "takeover_ns");
    assert!((1000..60_000_000_000).contains(&took_ns), "{took_ns}");
    assert!(said.contains("were taken over from an earlier process in "), "{said}");
    let home = scene.server.home.clone();
    scene.server.end().well();
    let stopped = Server::start_in(&home, &scene.image, &["--memory", "16M"]);
    assert_eq!(counter(&stopped, "blocks_retained"), 0, "nothing outlives a stop");
    assert_eq!(counter(&stopped, "takeover_ns"), 0);
    stopped.end().well();
}

/// Arguments: URI, a file with the volume's contents. Reads each block once, in an order that no
/// stream has.
const READ_BLOCKS: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
contents = open(sys.argv[2], "rb").read()
blocks = len(contents) // 4096
for number in range(blocks):
    at = number * 1009 % blocks * 4096
    if h.pread(4096, at) != contents[at:at + 4096]: sys.exit(f"other data at byte {at}")
"#;

/// Returns the contents of blocks that become a third of their size by compression.
fn compressible(blocks: u64) -> Vec<u8> {
    let mut random = lane::Random::new(1);
    let block = |number: u64| {
        let mut block = format!("This is block {number}. ").repeat(300).into_bytes();
        block[..4096 / 3].fill_with(|| random.below(256) as u8);
        block.truncate(4096);
        block
    };
    (0..blocks).flat_map(block).collect()
}

/// Waits until no block is being compressed. Returns the blocks in memory, not compressed and
/// compressed.
fn settled(server: &Server) -> (u64, u64) {
    let counts = || (counter(server, "blocks_held"), counter(server, "compressed_blocks"));
    let mut last = counts();
    wait_until("all evicted blocks are stored", || {
        crate::common::pause(std::time::Duration::from_millis(200));
        let before = std::mem::replace(&mut last, counts());
        before == last
    });
    last
}

#[test]
fn a_killed_daemon_s_compressed_blocks_are_served_by_the_next_one() {
    if !have_libnbd() || !is_local() {
        return;
    }
    // Half as much again as the memory has slots.
    const BLOCKS: u64 = 3072;
    let place = place();
    let image = image(&place, BLOCKS * 4096 / MIB);
    let copy = place.path().join("copy");
    for path in [&image, &copy] {
        std::fs::write(path, compressible(BLOCKS)).expect("room");
    }
    let read = |server: &Server| python(READ_BLOCKS, &[&server.uri, plain(&copy)]).well();
    let options = ["--memory", "8M", "--compress", "lz4", "--guard", "off", "--readahead", "off"];
    let mut server = Server::start(&image, &options);
    read(&server);
    for life in 1..3 {
        let (held, compressed) = settled(&server);
        assert!(compressed > BLOCKS / 4, "life {life}: {held} and {compressed} compressed");
        server = server.reborn();
        let count = |name| counter(&server, name);
        assert_eq!(count("compressed_retained"), compressed, "life {life}");
        assert_eq!(count("blocks_retained"), held, "life {life}");
        read(&server);
        let (missed, missing) = (count("block_read_misses"), BLOCKS - held - compressed);
        assert!(missed <= missing + 20, "life {life}: {missed} misses of {missing} blocks");
        assert!(count("compressed_used") >= compressed - missed, "life {life}");
    }
    server.end().well();
}

#[test]
fn an_upgrade_and_another_memory_keep_cached_blocks() {
    if !have_libnbd() || !is_local() {
        return;
    }
    let scene = Scene::new();
    scene.server.home.overdrive(&["upgrade"]).well();
    assert_eq!(scene.retained(), (ALL, 0));
    let scene = scene.killed_with("9M", |_, _| ());
    assert_eq!(scene.retained().1, 0);
    scene.server.end().well();
}

#[test]
fn what_another_program_writes_while_no_daemon_serves_is_read_by_the_next_one() {
    if !have_libnbd() {
        return;
    }
    let write = |image: &Path, bytes: &mut Vec<u8>| {
        let file = OpenOptions::new().write(true).open(image).expect("ours");
        fill(&file, 2, 99);
        bytes[2] = 99;
    };
    let scene = Scene::new().killed(write);
    assert_eq!(scene.retained().0, 0);
    if is_local() {
        scene.server.says("another program has had it open since the earlier process began");
    }
    // In the next life it is warm again.
    let scene = scene.killed(|_, _| ());
    assert_eq!(scene.retained().0, if is_local() { ALL } else { 0 });
    let grow = |image: &Path, bytes: &mut Vec<u8>| {
        run("truncate", &["--size", "4M", plain(image)]).well();
        run("truncate", &["--size", "8M", plain(image)]).well();
        bytes[4..].fill(0);
    };
    let scene = scene.killed(grow);
    assert_eq!(scene.retained().0, 0);
    scene.server.end().well();
}

/// The next daemon has the holder's report, but waits for the last request of the killed one.
#[test]
fn what_another_program_writes_while_the_next_daemon_starts_is_read_by_it() {
    if !have_libnbd() {
        return;
    }
    let Scene { _place, image, server, mut bytes } = Scene::new();
    let home = server.kill();
    wait_for_note(&home);
    let runtime = home.runtime().join("overdrive");
    let key = home.holders()[0].key.clone();
    let looked = holder::Keeper::look(&runtime, &key).expect("it answers").expect("a holder");
    let last_request = ring::Fence::take(looked.arena.as_fd(), 0).expect("all have ended");
    let server = std::thread::scope(|scope| {
        let starting =
            scope.spawn(|| Server::start_in(&home, &image, &["--memory", "16M", "--guard", "off"]));
        wait_until("the memory is taken over", || {
            let status = holder::Keeper::status(&runtime, &key).expect("it answers");
            status.is_some_and(|status| status.owner_pid.is_some())
        });
        let file = OpenOptions::new().write(true).open(&image).expect("ours");
        fill(&file, 4, 55);
        bytes[4] = 55;
        // Open while the next daemon serves, it would count against that one's blocks as well.
        drop(file);
        drop(last_request);
        starting.join().expect("it serves")
    });
    let scene = Scene { _place, image, server, bytes };
    assert_eq!(scene.retained().0, 0);
    // In the next life it is warm again.
    let scene = scene.killed(|_, _| ());
    assert_eq!(scene.retained().0, if is_local() { ALL } else { 0 });
    scene.server.end().well();
}

/// A program that had the image open before the daemon began.
#[test]
fn a_program_that_has_had_the_image_open_all_the_time_is_noticed_by_its_writes() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, SIZE_MIB);
    let file = OpenOptions::new().write(true).open(&image).expect("ours");
    let bytes: Vec<u8> = (1..=SIZE_MIB as u8).collect();
    (0..SIZE_MIB).zip(&bytes).for_each(|(mib, byte)| fill(&file, mib, *byte));
    file.sync_all().expect("a disk");
    let server = Server::start(&image, &["--memory", "16M", "--guard", "off"]);
    let scene = Scene { _place: place, image, server, bytes };
    scene.read();
    let home = scene.server.home.clone();
    let scene = scene.killed(|_, bytes| {
        // After the holder has noted the image's state: an earlier write is like one of the daemon.
        wait_for_note(&home);
        fill(&file, 5, 88);
        bytes[5] = 88;
    });
    assert_eq!(scene.retained().0, 0);
    scene.server.end().well();
}

/// Waits until an orphaned holder sleeps: it has noted the state of its image.
fn wait_for_note(home: &Arc<Home>) {
    let runtime = home.runtime().join("overdrive");
    let is_orphaned = || {
        let keys = std::fs::read_dir(runtime.join("holders")).expect("a holder is there");
        let names = keys.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let keys: Vec<String> =
            names.filter_map(|it| Some(it.strip_suffix(".sock")?.to_owned())).collect();
        keys.iter().all(|key| {
            let status = holder::Keeper::status(&runtime, key).expect("it answers");
            status.is_some_and(|status| status.owner_pid.is_none() && status.has_only_clean)
        })
    };
    wait_until("the holder has no owner", is_orphaned);
    crate::common::pause(std::time::Duration::from_millis(100));
}

#[test]
fn what_is_written_through_a_loop_device_over_the_image_is_read_by_the_next_daemon() {
    if !have_libnbd() || !is_root() || !have(&["losetup", "dd"]) {
        return;
    }
    if !Path::new("/dev/loop-control").exists() {
        return;
    }
    let scene = Scene::new().killed(|image, bytes| {
        let made = run("losetup", &["--find", "--show", plain(image)]).well();
        let device = made.stdout.trim();
        let file = OpenOptions::new().write(true).open(device).expect("it is attached");
        fill(&file, 6, 66);
        file.sync_all().expect("a disk");
        drop(file);
        run("losetup", &["--detach", device]).well();
        bytes[6] = 66;
    });
    assert_eq!(scene.retained().0, 0);
    scene.server.end().well();
}

#[test]
fn a_killed_holder_takes_the_cached_blocks_with_it() {
    if !have_libnbd() {
        return;
    }
    let scene = Scene::new();
    let home = scene.server.home.clone();
    let holder = home.holders()[0].holder_pid;
    let scene = scene.killed(|_, _| {
        kill_process(Pid::from_raw(holder).expect("a process"), Signal::KILL).expect("it lives");
    });
    assert_eq!(scene.retained().0, 0);
    scene.server.end().well();
}
