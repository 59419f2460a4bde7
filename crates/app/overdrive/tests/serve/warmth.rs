//! The list of hot blocks over restarts: it makes the cache warm, it is never trusted for contents,
//! and without it everything else works.

use crate::common::{Server, image, is_root, no_namespaces, place, run, wait_until};
use crate::home::Home;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BLOCK: usize = 4096;
/// Blocks of the test's volumes of 16 MiB, and the hot ones among them.
const BLOCKS: u64 = 4096;
const HOT: std::ops::Range<u64> = 100..356;

fn block_of(life: u8, block: u64) -> Vec<u8> {
    let mut bytes = vec![life; BLOCK];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes
}

/// Fills an image with the blocks of a life.
fn fill(path: &Path, life: u8) {
    let file = fs::File::options().write(true).open(path).expect("the image");
    for block in 0..BLOCKS {
        file.write_all_at(&block_of(life, block), block * BLOCK as u64).expect("room");
    }
}

fn serve(home: &Arc<Home>, image: &Path, options: &[&str]) -> Server {
    let memory = if options.contains(&"--memory") { &[][..] } else { &["--memory", "8M"] };
    // On a busy machine, the guard could bypass the cache.
    Server::start_in(
        home,
        image,
        &[memory, &["--threads", "1", "--guard", "off"], options].concat(),
    )
}

/// A client with one request at a time.
struct Client(UnixStream);

impl Client {
    fn connect(socket: &Path) -> Client {
        let mut stream = UnixStream::connect(socket).expect("it listens");
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).expect("a greeting");
        // The default export, and no padding after its flags.
        let option = [&3u32.to_be_bytes()[..], b"IHAVEOPT", &1u32.to_be_bytes(), &[0; 4]].concat();
        stream.write_all(&option).expect("it listens");
        stream.read_exact(&mut [0; 10]).expect("its size and its flags");
        Client(stream)
    }

    fn read(&mut self, offset: u64, length: usize) -> Vec<u8> {
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend_from_slice(&[0; 12]);
        request.extend_from_slice(&offset.to_be_bytes());
        request.extend_from_slice(&(length as u32).to_be_bytes());
        self.0.write_all(&request).expect("it listens");
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply[4..8], &[0; 4], "no error");
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).expect("the data");
        bytes
    }
}

/// Reads blocks, and checks that they are of this life.
fn read(server: &Server, blocks: impl Iterator<Item = u64>, life: u8) {
    let mut client = Client::connect(&server.socket);
    for block in blocks {
        assert_eq!(client.read(block * BLOCK as u64, BLOCK), block_of(life, block), "{block}");
    }
}

fn counter(server: &Server, name: &str) -> u64 {
    let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
    stats["counters"][name].as_u64().unwrap_or_else(|| panic!("{name} in {stats}"))
}

/// Waits until the list was read back. Returns the number of blocks that it has brought, with those
/// that the start-up list had brought before.
fn warmed(server: &Server) -> u64 {
    wait_until("the list was read back", || {
        counter(server, "warm_listed") > 0 && counter(server, "warm_state") == 0
    });
    counter(server, "start_cached") + counter(server, "warm_cached")
}

/// Serves an image of life 1, and reads its hot blocks. The list is saved at the end.
fn first_life(home: &Arc<Home>, image: &Path) {
    fill(image, 1);
    let server = serve(home, image, &[]);
    read(&server, HOT, 1);
    read(&server, HOT, 1);
    assert_eq!(server.end().status, 0);
}

/// Returns the lists of hot blocks.
fn lists(home: &Home) -> Vec<PathBuf> {
    files(home, "hot")
}

/// Returns the lists with this suffix.
fn files(home: &Home, suffix: &str) -> Vec<PathBuf> {
    let directory = home.state().join("overdrive/hot");
    let entries = fs::read_dir(directory).into_iter().flatten();
    let paths = entries.map(|entry| entry.expect("a file").path());
    paths.filter(|path| path.extension().is_some_and(|other| other == suffix)).collect()
}

#[test]
fn hot_blocks_are_in_memory_again_after_a_restart() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 16);
    first_life(&home, &image);
    let [list] = &lists(&home)[..] else { panic!("{:?}", lists(&home)) };
    assert_eq!(fs::metadata(list).expect("there").permissions().mode() & 0o777, 0o600);
    assert!(fs::metadata(list).expect("there").len() < 1500, "one or two bytes a block");
    let server = serve(&home, &image, &[]);
    assert_eq!(warmed(&server), HOT.end - HOT.start);
    let misses = counter(&server, "read_misses");
    read(&server, HOT, 1);
    assert_eq!(counter(&server, "read_misses"), misses);
    let used = counter(&server, "start_used") + counter(&server, "warm_used");
    assert_eq!(used, HOT.end - HOT.start);
    let said = server.volume(&["stats"]).well().stdout;
    assert!(said.contains("The list of hot blocks (1 MiB) was read back in "), "{said}");
    assert!(server.volume(&["forget"]).well().stdout.contains("was removed"));
    assert!(server.volume(&["forget"]).well().stdout.contains("has no list"));
    assert!(lists(&home).is_empty() && files(&home, "start").is_empty());
    assert_eq!(server.end().status, 0);
    assert_eq!(lists(&home).len(), 1, "it was saved again at the end");
}

#[test]
fn contents_that_changed_between_two_lives_are_read_anew() {
    // Written by another program, replaced by another file, restored from a copy, and both lives
    // with the same list.
    let changes: [fn(&Path); 3] = [
        |image| fill(image, 2),
        |image| {
            let other = image.with_extension("other");
            fs::File::create(&other).and_then(|file| file.set_len(16 << 20)).expect("room");
            fill(&other, 2);
            fs::rename(&other, image).expect("in one directory");
        },
        |image| {
            let copy = image.with_extension("copy");
            fs::copy(image, &copy).expect("room");
            fill(image, 3);
            fill(&copy, 2);
            fs::copy(&copy, image).expect("room");
        },
    ];
    for change in changes {
        let (place, home) = (place(), Home::new());
        let image = image(&place, 16);
        first_life(&home, &image);
        change(&image);
        let server = serve(&home, &image, &[]);
        read(&server, HOT, 2);
        read(&server, (0..BLOCKS).step_by(7), 2);
        assert_eq!(server.end().status, 0);
    }
}

#[test]
fn a_volume_that_has_grown_is_warm_and_one_that_has_shrunk_is_cold() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 16);
    first_life(&home, &image);
    let resize = |mib: u64| {
        fs::File::options().write(true).open(&image).and_then(|file| file.set_len(mib << 20))
    };
    resize(24).expect("room");
    let server = serve(&home, &image, &[]);
    assert_eq!(warmed(&server), HOT.end - HOT.start);
    read(&server, HOT, 1);
    assert_eq!(server.end().status, 0);
    resize(12).expect("smaller");
    let server = serve(&home, &image, &[]);
    server.says("is of the time when the volume was larger; the cache starts empty");
    read(&server, HOT, 1);
    assert_eq!((counter(&server, "warm_listed"), server.end().status), (0, 0));
}

#[test]
fn without_a_usable_list_the_cache_starts_empty_and_says_why() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 16);
    first_life(&home, &image);
    let [list] = &lists(&home)[..] else { panic!("{:?}", lists(&home)) };
    let good = fs::read(list).expect("saved");
    for (bytes, why) in [
        (&good[..good.len() / 2], "is damaged"),
        (b"not a list of blocks".as_slice(), "is no list of hot blocks"),
    ] {
        fs::write(list, bytes).expect("ours");
        let server = serve(&home, &image, &[]);
        server.says(why);
        read(&server, HOT, 1);
        assert_eq!(counter(&server, "warm_listed"), 0);
        assert_eq!(server.end().status, 0);
    }
    // A file where the directory would be.
    fs::remove_dir_all(home.state()).expect("ours");
    fs::write(home.state(), "").expect("ours");
    let server = serve(&home, &image, &[]);
    server.says("the cache starts empty");
    read(&server, HOT, 1);
    let ended = server.end();
    assert_eq!(ended.status, 0);
    assert!(ended.stderr.contains("the list of hot blocks cannot be saved"), "{}", ended.stderr);
}

#[test]
fn nothing_is_saved_or_read_where_the_list_is_off_or_there_is_no_cache() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 16);
    fill(&image, 1);
    for options in [&["--warm", "off"][..], &["--memory", "0"]] {
        let server = serve(&home, &image, options);
        read(&server, HOT, 1);
        assert_eq!(server.end().status, 0);
        assert!(lists(&home).is_empty(), "{options:?}");
    }
    first_life(&home, &image);
    let server = serve(&home, &image, &["--warm", "off"]);
    read(&server, 0..10, 1);
    assert_eq!((counter(&server, "warm_listed"), server.end().status), (0, 0));
    assert_eq!(lists(&home).len(), 1, "the list of an earlier life stays");
}

#[test]
fn a_read_only_volume_and_less_memory_are_warm_as_far_as_they_can_be() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 16);
    fill(&image, 1);
    let server = serve(&home, &image, &["--read-only"]);
    read(&server, 0..1500, 1);
    assert_eq!(server.end().status, 0);
    let server = serve(&home, &image, &["--read-only", "--memory", "1M"]);
    // Blocks of the start-up list may have left again for those of the list of hot blocks.
    let (cached, held) = (warmed(&server), counter(&server, "blocks_held"));
    assert!(cached >= 200 && (200..=256).contains(&held), "{cached}, {held}");
    read(&server, 0..1500, 1);
    assert_eq!(server.end().status, 0);
}

#[test]
fn a_volume_that_ends_inside_a_block_is_warm() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 16);
    let size = (16 << 20) + 1536;
    let resized = fs::File::options().write(true).open(&image).and_then(|file| file.set_len(size));
    resized.expect("room");
    let server = serve(&home, &image, &[]);
    let mut client = Client::connect(&server.socket);
    let (last, length) = (16 << 20, 512);
    assert_eq!(client.read(last - 512, length * 2), vec![0; length * 2]);
    drop(client);
    assert_eq!(server.end().status, 0);
    let server = serve(&home, &image, &[]);
    assert_eq!(warmed(&server), 1);
    assert_eq!(server.end().status, 0);
}

#[test]
fn a_pool_is_warm_by_its_own_identity() {
    let (place, home) = (place(), Home::new());
    let members = ["0.img", "1.img"].map(|name| place.path().join(name).display().to_string());
    for member in &members {
        fs::File::create(member).and_then(|file| file.set_len(64 << 20)).expect("sparse");
    }
    home.overdrive(&["pool", "create", &members[0], &members[1]]).well();
    let pool = format!("pool:{}", members.join(","));
    let serve = || {
        let options = ["--memory", "8M", "--threads", "1", "--guard", "off"];
        Server::start_in(&home, &pool, &options)
    };
    let server = serve();
    let mut client = Client::connect(&server.socket);
    HOT.for_each(|block| assert_eq!(client.read(block * BLOCK as u64, BLOCK), vec![0; BLOCK]));
    drop(client);
    assert_eq!(server.end().status, 0);
    let server = serve();
    assert_eq!(warmed(&server), HOT.end - HOT.start);
    assert_eq!(server.end().status, 0);
}

/// Waits until a list with this suffix is there, and is not the former one.
fn saved(home: &Home, suffix: &str, former: Option<&[u8]>) -> Vec<u8> {
    let read = || fs::read(files(home, suffix).first()?).ok();
    wait_until("a list was saved", || read().is_some_and(|list| former != Some(&list[..])));
    read().expect("it stays")
}

/// Ends the first minutes of a start, so that they have all reads until now, however busy the
/// machine is. Returns the start-up list.
fn end_first_minutes(server: &Server, home: &Home, former: Option<&[u8]>) -> Vec<u8> {
    server.volume(&["set", "warm_save=100ms"]).well();
    saved(home, "start", former)
}

/// The number of blocks that a list of hot blocks names.
fn blocks_in(list: &[u8]) -> u64 {
    let number = |at: usize| usize::from(u16::from_le_bytes([list[at], list[at + 1]]));
    let counts = list[40 + number(38)..].chunks(4).take(number(36));
    counts.map(|count| u64::from(u32::from_le_bytes(count.try_into().expect("four")))).sum()
}

/// Blocks in the order in which a guest reads them.
fn boot() -> impl Iterator<Item = u64> {
    (0..600).map(|at| at * 1009 % BLOCKS)
}

#[test]
fn the_blocks_of_a_start_are_fetched_ahead_of_the_next_one_even_after_a_kill() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 16);
    fill(&image, 1);
    // Nothing is retained, as after a reboot.
    let options = ["--no-holder", "--warm-save", "3600s", "--delay", "read=2ms"];
    let server = serve(&home, &image, &options);
    read(&server, boot(), 1);
    let list = end_first_minutes(&server, &home, None);
    let path = files(&home, "start").remove(0);
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    assert!(list.len() < 3 * 600 + 200, "{} bytes for 600 blocks", list.len());
    let home = server.kill();
    // Without the list of hot blocks, which may have been saved as well.
    lists(&home).iter().for_each(|list| fs::remove_file(list).expect("ours"));
    fill(&image, 2);

    let server = serve(&home, &image, &options);
    wait_until("the start-up list is followed", || counter(&server, "start_cached") > 0);
    read(&server, boot(), 2);
    assert_eq!(counter(&server, "start_listed"), 600);
    let (used, wasted) = (counter(&server, "start_used"), counter(&server, "start_wasted"));
    assert!(used > 0 && wasted == 0, "{used} used, {wasted} wasted");
    let said = server.volume(&["stats"]).well().stdout;
    assert!(said.contains("The start-up list (2.3 MiB)"), "{said}");
    // Another guest: after three whole starts, the blocks of the first one are forgotten.
    let mut former = saved(&home, "start", None);
    let mut home = server.kill();
    for _ in 0..3 {
        let server = serve(&home, &image, &options);
        read(&server, 4000..4050, 2);
        former = end_first_minutes(&server, &home, Some(&former));
        home = server.kill();
    }
    assert!(former.len() < 250, "{} bytes for 50 blocks", former.len());
}

#[test]
fn a_start_that_ends_early_is_learnt_and_one_with_retained_blocks_is_none() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 16);
    fill(&image, 1);
    let server = serve(&home, &image, &[]);
    read(&server, boot(), 1);
    assert_eq!(server.end().status, 0);
    let list = saved(&home, "start", None);
    // The next daemon takes the blocks over, and has nothing to fetch.
    let server = serve(&home, &image, &["--warm-save", "100ms"]);
    read(&server, boot(), 1);
    let taken = server.kill();
    let server = serve(&taken, &image, &["--warm-save", "100ms"]);
    if counter(&server, "blocks_retained") > 0 {
        let misses = counter(&server, "read_misses");
        read(&server, boot(), 1);
        read(&server, HOT, 1);
        assert_eq!(counter(&server, "start_cached"), 0, "all is held");
        assert!(counter(&server, "read_misses") <= misses + (HOT.end - HOT.start));
    }
    assert_eq!(server.end().status, 0);
    assert!(fs::read(&files(&home, "start")[0]).expect("there").len() <= list.len() + 100);
}

#[test]
fn a_list_is_saved_from_time_to_time_and_a_kill_costs_the_last_interval_only() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 16);
    fill(&image, 1);
    let options = ["--no-holder", "--warm-save", "100ms"];
    let server = serve(&home, &image, &options);
    read(&server, HOT, 1);
    saved(&home, "hot", None);
    // A save may fall between the reads, so they go on until a list names all blocks.
    wait_until("the list names all blocks", || {
        read(&server, HOT.chain(1000..1500), 1);
        fs::read(&lists(&home)[0]).is_ok_and(|list| blocks_in(&list) == HOT.end - HOT.start + 500)
    });
    let home = server.kill();
    let server = serve(&home, &image, &options);
    wait_until("the lists were read back", || {
        let [start, hot] = ["start_cached", "warm_cached"].map(|name| counter(&server, name));
        start + hot == HOT.end - HOT.start + 500
    });
    let misses = counter(&server, "read_misses");
    read(&server, HOT.chain(1000..1500), 1);
    assert_eq!(counter(&server, "read_misses"), misses);
    assert_eq!(server.end().status, 0);
}

#[test]
fn another_time_between_saves_counts_from_the_last_save() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 16);
    fill(&image, 1);
    // Both lists would be saved after an hour.
    let server = serve(&home, &image, &["--warm-save", "3600s"]);
    read(&server, HOT, 1);
    assert!(lists(&home).is_empty() && files(&home, "start").is_empty());
    server.volume(&["set", "warm_save=100ms"]).well();
    assert_eq!(blocks_in(&saved(&home, "hot", None)), HOT.end - HOT.start);
    saved(&home, "start", None);
    assert_eq!(server.end().status, 0);
}

#[test]
fn lists_that_cannot_be_saved_change_nothing_but_the_next_start() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 16);
    first_life(&home, &image);
    let good = ["hot", "start"].map(|suffix| saved(&home, suffix, None));
    // A directory in the way of the new file fails also for root, unlike permissions.
    for (suffix, new) in [("hot", "new"), ("start", "start-new")] {
        fs::create_dir(files(&home, suffix)[0].with_extension(new)).expect("room");
    }
    let server = serve(&home, &image, &["--warm-save", "100ms"]);
    read(&server, 2000..3000, 1);
    server.says("the list of hot blocks cannot be saved");
    read(&server, HOT, 1);
    let ended = server.end();
    assert_eq!(ended.status, 0);
    assert_eq!(ended.stderr.matches("cannot be saved").count(), 1, "{}", ended.stderr);
    assert_eq!(["hot", "start"].map(|suffix| saved(&home, suffix, None)), good);
}

/// Serves an image whose lists cannot be saved, for this reason.
fn serve_without_lists(home: &Arc<Home>, why: &str) {
    let place = place();
    let image = image(&place, 16);
    fill(&image, 1);
    let server = serve(home, &image, &["--warm-save", "100ms"]);
    read(&server, 0..1000, 1);
    server.says(why);
    read(&server, 0..1000, 1);
    let ended = server.end();
    assert_eq!(ended.status, 0);
    assert_eq!(ended.stderr.matches("cannot be saved").count(), 1, "{}", ended.stderr);
}

#[test]
fn a_state_directory_that_takes_no_files_is_reported_once() {
    let home = Home::new();
    fs::create_dir_all(home.state().join("overdrive")).expect("ours");
    // Even root makes no files there.
    let lists = home.state().join("overdrive/hot");
    std::os::unix::fs::symlink("/proc/self", &lists).expect("ours");
    serve_without_lists(&home, "cannot be saved (");
}

#[test]
fn a_full_state_directory_is_reported_once() {
    if !is_root() {
        return;
    }
    let _unshared = no_namespaces();
    let home = Home::new();
    fs::create_dir_all(home.state()).expect("ours");
    let state = home.state().display().to_string();
    run("mount", &["-t", "tmpfs", "-o", "size=64k", "none", &state]).well();
    let mut file = fs::File::create(home.state().join("other")).expect("room for one");
    while file.write_all(&[1; 4096]).is_ok() {}
    serve_without_lists(&home, "cannot be saved (No space left on device");
    run("umount", &["--lazy", &state]).well();
}

#[test]
fn a_read_only_state_directory_is_read_and_reported_once() {
    if !is_root() {
        return;
    }
    let _unshared = no_namespaces();
    let (place, home) = (place(), Home::new());
    let image = image(&place, 16);
    fs::create_dir_all(home.state()).expect("ours");
    let state = home.state().display().to_string();
    run("mount", &["-t", "tmpfs", "none", &state]).well();
    first_life(&home, &image);
    let suffixes = ["hot", "start", "policy"];
    let good = suffixes.map(|suffix| saved(&home, suffix, None));
    run("mount", &["-o", "remount,ro", &state]).well();
    assert!(fs::write(home.state().join("other"), "").is_err(), "it takes no files");

    let server = serve(&home, &image, &["--warm-save", "100ms"]);
    assert_eq!(warmed(&server), HOT.end - HOT.start);
    read(&server, HOT.chain(2000..3000), 1);
    server.says("the list of hot blocks cannot be saved (Read-only file system");
    read(&server, HOT, 1);
    let forget = server.volume(&["forget"]);
    assert_eq!(forget.status, 6, "{}", forget.stderr);
    assert!(forget.stderr.contains("cannot be removed"), "{}", forget.stderr);
    let ended = server.end();
    assert_eq!(ended.status, 0);
    assert_eq!(ended.stderr.matches("cannot be saved").count(), 1, "{}", ended.stderr);
    assert_eq!(suffixes.map(|suffix| saved(&home, suffix, None)), good);
    run("umount", &["--lazy", &state]).well();
}

#[test]
fn lists_from_the_future_are_used_and_replaced() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 16);
    first_life(&home, &image);
    // The clock was a century ahead when they were saved, and has jumped back.
    let future = std::time::SystemTime::now() + std::time::Duration::from_secs(100 * 365 * 86_400);
    for suffix in ["hot", "start"] {
        let list = fs::File::options().write(true).open(&files(&home, suffix)[0]).expect("ours");
        list.set_modified(future).expect("ours");
    }
    let server = serve(&home, &image, &["--warm-save", "100ms"]);
    wait_until("the lists were read back", || {
        let [start, hot] = ["start_cached", "warm_cached"].map(|name| counter(&server, name));
        start + hot == HOT.end - HOT.start
    });
    read(&server, 2000..3000, 1);
    for suffix in ["hot", "start"] {
        wait_until("it was replaced", || {
            let list = fs::metadata(&files(&home, suffix)[0]).expect("there");
            list.modified().is_ok_and(|time| time < future)
        });
    }
    assert_eq!(server.end().status, 0);
}

/// The curve of other sizes, as `volume stats --json` has it.
fn curve(server: &Server) -> serde_json::Value {
    let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
    assert!(stats["curve"].is_object(), "{stats}");
    stats["curve"].clone()
}

fn accesses(curve: &serde_json::Value) -> u64 {
    curve["accesses"].as_u64().expect("a number")
}

/// The accesses that a saved policy's curve has, which are its first number.
fn accesses_in(state: &[u8]) -> u64 {
    let identity = usize::from(u16::from_le_bytes([state[38], state[39]]));
    let at = 40 + identity + 13;
    u64::from_le_bytes(state[at..at + 8].try_into().expect("eight"))
}

/// Options of a volume whose cache is large enough for a curve, over an image of four times its
/// size.
const CURVED: [&str; 4] = ["--memory", "16M", "--warm-save", "100ms"];

/// Reads a part of an image of zeros at random, so that some other sizes would miss more.
fn read_at_random(server: &Server) {
    let mut client = Client::connect(&server.socket);
    for read in 0..20_000u64 {
        let block = 1 + (read * read * 31 + read / 7) % 6000 * (1 + read % 3) / 3;
        assert_eq!(client.read(block * BLOCK as u64, BLOCK), vec![0; BLOCK]);
    }
}

#[test]
fn the_curve_of_other_sizes_goes_on_after_an_upgrade_a_kill_and_a_restart() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 64);
    let server = serve(&home, &image, &CURVED);
    read_at_random(&server);
    let before = curve(&server);
    assert_eq!(before["earlier_ns"], 0);
    home.overdrive(&["upgrade"]).well();
    wait_until("the curve was restored", || accesses(&curve(&server)) == accesses(&before));
    let after = curve(&server);
    let ratios = |curve: &serde_json::Value| -> Vec<f64> {
        let points = curve["points"].as_array().expect("points").iter();
        points.map(|point| point["miss_ratio"].as_f64().expect("a number")).collect()
    };
    assert_eq!(ratios(&after), ratios(&before));
    assert!(ratios(&before)[0] > ratios(&before)[5], "{before}");
    assert!(after["window_ns"].as_u64() >= before["window_ns"].as_u64());
    let said = server.volume(&["stats"]).well().stdout;
    assert!(said.contains("of it in earlier processes"), "{said}");

    // A kill costs the accesses since the last save: the last ones of an interval, fewer than one
    // for 16 blocks.
    read_at_random(&server);
    let before = curve(&server);
    let saved_of = || files(&home, "policy").first().and_then(|path| fs::read(path).ok());
    wait_until("it was saved", || {
        saved_of().is_some_and(|state| accesses_in(&state).abs_diff(accesses(&before)) < 256)
    });
    let home = server.kill();
    let server = serve(&home, &image, &CURVED);
    wait_until("the curve was restored", || {
        let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
        stats["curve"]["accesses"].as_u64().is_some_and(|now| now.abs_diff(accesses(&before)) < 256)
    });
    for (after, before) in ratios(&curve(&server)).into_iter().zip(ratios(&before)) {
        assert!((after - before).abs() < 0.02, "{after} and {before}");
    }
    let before = curve(&server);
    assert_eq!(server.end().status, 0);
    let path = files(&home, "policy").remove(0);
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let server = serve(&home, &image, &CURVED);
    wait_until("the curve was restored", || {
        let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
        stats["curve"]["accesses"].as_u64() == Some(accesses(&before))
    });
    assert!(server.volume(&["forget"]).well().stdout.contains("was removed"));
    assert!(files(&home, "policy").is_empty());
    assert_eq!(server.end().status, 0);
}

#[test]
fn a_policy_whose_state_cannot_be_used_starts_empty_and_says_why() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 64);
    let server = serve(&home, &image, &CURVED);
    read_at_random(&server);
    assert_eq!(server.end().status, 0);
    let path = files(&home, "policy").remove(0);
    let good = fs::read(&path).expect("saved");
    let damaged = [&good[..100], &[good[100] ^ 1], &good[101..]].concat();
    let newer = [&good[..8], &[9], &good[9..]].concat();
    for (bytes, why) in [
        (damaged, "is damaged; the policy and the curve of other sizes start empty"),
        (newer, "is of a later version (9); the policy"),
        (fs::read(&files(&home, "hot")[0]).expect("saved"), "is no state of a policy; the policy"),
    ] {
        fs::write(&path, &bytes).expect("ours");
        let server = serve(&home, &image, &CURVED);
        server.says(why);
        let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
        assert!(stats["curve"].is_null(), "{stats}");
        read_at_random(&server);
        assert!(accesses(&curve(&server)) > 0, "it learns again");
        assert_eq!(server.end().status, 0);
        assert_ne!(fs::read(&path).expect("replaced"), bytes);
    }
    // Another size starts empty as well, without a message.
    let other = serve(&home, &image, &["--memory", "24M"]);
    let stats = other.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
    assert!(stats["curve"].is_null(), "{stats}");
    let ended = other.end();
    let sentences = ended.stderr.matches("the curve of other sizes start empty").count();
    assert_eq!((ended.status, sentences), (0, 3), "{}", ended.stderr);
}

#[test]
fn a_state_directory_that_is_removed_is_named_and_used_again_after_a_restart() {
    let (place, home) = (place(), Home::new());
    let image = image(&place, 16);
    fill(&image, 1);
    let server = serve(&home, &image, &["--warm-save", "100ms"]);
    read(&server, HOT, 1);
    saved(&home, "hot", None);
    let state = home.state().join("overdrive");
    // Moved first: the daemon could write a file into it during its removal.
    let removed = home.state().join("removed");
    fs::rename(&state, &removed).expect("ours");
    fs::remove_dir_all(&removed).expect("ours");
    fs::create_dir(&state).expect("room");
    read(&server, 1000..2000, 1);
    server.says("cannot be saved (Permission denied");
    let ended = server.end();
    assert_eq!(ended.status, 0);
    assert!(ended.stderr.contains("restart the daemon"), "{}", ended.stderr);
    assert!(files(&home, "hot").is_empty());
    let server = serve(&home, &image, &["--warm-save", "100ms"]);
    read(&server, HOT, 1);
    saved(&home, "hot", None);
    server.end().well();
}
