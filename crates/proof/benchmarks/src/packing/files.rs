//! Sets of blocks from files of this machine.

use crate::cached_pool::BLOCK;
use anyhow::{Context, Result, ensure};
use lane::Random;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) type Block = [u8; BLOCK];

/// Names of text files, and of files that are compressed already.
const TEXT: &[&str] =
    &["txt", "py", "html", "md", "xml", "json", "pl", "pm", "h", "el", "vim", "sql"];
const COMPRESSED: &[&str] =
    &["png", "jpg", "gz", "xz", "zst", "deb", "crate", "mp4", "mkv", "webm", "mp3", "ogg"];
/// Maximum number of blocks of one file: no file is most of a set.
const FILE_BLOCKS_MAX: usize = 1024;

/// The number of blocks that the memory is to hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// Not set for a single kind of data.
    None,
    /// More than without packing.
    More,
    /// As many as without packing.
    AsMany,
}

/// Blocks of one kind of data, file by file.
pub(super) struct Set {
    pub(super) name: &'static str,
    pub(super) goal: Goal,
    pub(super) blocks: Vec<Block>,
}

impl Set {
    /// Returns all compressible sets as one, in pieces of 1 MiB in random order.
    pub(super) fn together(sets: &[Set]) -> Set {
        let sets = sets.iter().filter(|set| set.goal == Goal::None);
        let mut pieces: Vec<&[Block]> = sets.flat_map(|set| set.blocks.chunks(256)).collect();
        let mut random = Random::new(1);
        let mut blocks = Vec::new();
        while !pieces.is_empty() {
            let piece = pieces.swap_remove(random.below(pieces.len() as u64) as usize);
            blocks.extend_from_slice(piece);
        }
        Set { name: "together", goal: Goal::More, blocks }
    }

    /// Returns a set of random bytes, of any size: no machine has that many pictures.
    pub(super) fn random(blocks: usize) -> Set {
        let mut random = Random::new(2);
        let mut block = || {
            let mut block = [0; BLOCK];
            block.as_chunks_mut().0.fill_with(|| random.next_u64().to_le_bytes());
            block
        };
        Set { name: "random", goal: Goal::AsMany, blocks: (0..blocks).map(|_| block()).collect() }
    }

    /// Returns a set of this many blocks that are zeros, or repeat another word.
    pub(super) fn words(blocks: usize) -> Set {
        let word = |number: u64| if number.is_multiple_of(2) { 0 } else { number << 32 | number };
        let block = |number: u64| {
            let mut block = [0; BLOCK];
            block.as_chunks_mut().0.fill(word(number).to_le_bytes());
            block
        };
        Set { name: "words", goal: Goal::None, blocks: (0..blocks as u64).map(block).collect() }
    }
}

/// Collects the files below a directory whose names end in one of these extensions, or all.
fn collect(directory: &Path, extensions: &[&str], files: &mut Vec<PathBuf>) {
    let Ok(entries) = directory.read_dir() else { return };
    for entry in entries.flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
        if kind.as_ref().is_ok_and(std::fs::FileType::is_dir) {
            collect(&path, extensions, files);
        } else if kind.is_ok_and(|kind| kind.is_file())
            && (extensions.is_empty() || extensions.contains(&extension))
        {
            files.push(path);
        }
    }
}

/// Appends the whole blocks of a file, from its beginning or from a later one.
fn read(file: &Path, random: &mut Random, blocks: &mut Vec<Block>) {
    // A file may have been removed, or not be readable.
    let Ok(bytes) = std::fs::read(file) else { return };
    let (all, _) = bytes.as_chunks::<BLOCK>();
    let spare = all.len().saturating_sub(FILE_BLOCKS_MAX);
    let first = random.below(spare as u64 + 1) as usize;
    blocks.extend(all.iter().skip(first).take(FILE_BLOCKS_MAX));
}

/// Returns a set of `most` blocks, or as many as there are, from files in a random order.
fn of_files(
    name: &'static str,
    goal: Goal,
    directories: &[&Path],
    extensions: &[&str],
    most: usize,
) -> Set {
    let mut files = Vec::new();
    for directory in directories {
        collect(directory, extensions, &mut files);
    }
    files.sort();
    let mut random = Random::new(1);
    let mut blocks = Vec::new();
    while blocks.len() < most && !files.is_empty() {
        let file = files.swap_remove(random.below(files.len() as u64) as usize);
        read(&file, &mut random, &mut blocks);
    }
    blocks.truncate(most);
    Set { name, goal, blocks }
}

/// Runs a program with this input.
fn feed(mut command: Command, input: &str) -> Result<()> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    child.stdin.take().context("a pipe")?.write_all(input.as_bytes())?;
    ensure!(child.wait()?.success(), "{} failed", command.get_program().display());
    Ok(())
}

/// A table of accounts and their payments, in the words of both databases; `%` is the remainder.
const COLUMNS: &str =
    "id integer primary key, name text, email text, created integer, amount real, note text";
const VALUES: &str = "n, 'customer ' || (n * 7919 % 100003), \
     'user' || (n * 104729 % 1000003) || '@example.org', 1700000000 + n * 61 % 9000000, \
     (n * 31 % 100000) / 100.0, \
     substr('paid by card on delivery, to be shipped with the next order, no remarks', \
            1 + n % 30, 8 + n % 40)";

fn sqlite(directory: &Path, rows: usize) -> Result<PathBuf> {
    let file = directory.join("table.sqlite");
    let mut command = Command::new("sqlite3");
    command.arg(&file);
    let input = format!(
        "create table t ({COLUMNS}); \
         with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < {rows}) \
         insert into t select {VALUES} from numbers; create index by_name on t (name);\n"
    );
    feed(command, &input)?;
    Ok(file)
}

/// Makes a table of PostgreSQL without a server. Returns the directory of the database's files.
fn postgres(directory: &Path, rows: usize) -> Result<PathBuf> {
    let data = directory.join("postgres");
    std::fs::create_dir(&data)?;
    let is_root = rustix::process::geteuid().is_root();
    // It refuses to run as root.
    let command = |program: &str| {
        let mut command = Command::new(if is_root { "runuser" } else { program });
        if is_root {
            command.args(["-u", "postgres", "--", program]);
        }
        command.env("PGDATA", &data).current_dir("/");
        command
    };
    if is_root {
        let mut chown = Command::new("chown");
        chown.arg("postgres").arg(directory).arg(&data);
        feed(chown, "")?;
    }
    feed(command("initdb"), "")?;
    let mut single = command("postgres");
    single.args(["--single", "postgres"]);
    let input = format!(
        "create table t ({COLUMNS})\n\
         insert into t select {VALUES} from (select generate_series(1::bigint, {rows}) as n) as x\n\
         create index by_name on t (name)\ncheckpoint\n"
    );
    feed(single, &input)?;
    Ok(data.join("base"))
}

/// Returns all sets, with at most `most` blocks in each, and the reasons for sets that are missing.
pub(super) fn sets(most: usize) -> Result<(Vec<Set>, Vec<String>)> {
    let directory = tempfile::tempdir()?;
    // There are fewer rows in a block, with their index.
    let rows = most * 40;
    let mut sets = vec![
        of_files("binaries", Goal::None, &["/usr/bin".as_ref()], &[], most),
        of_files("text", Goal::None, &["/usr/share".as_ref()], TEXT, most),
    ];
    let mut missing = Vec::new();
    let tables = [
        ("SQLite", sqlite(directory.path(), rows)),
        ("PostgreSQL", postgres(directory.path(), rows)),
    ];
    for (name, made) in tables {
        match made {
            Ok(file) if file.is_dir() => {
                sets.push(of_files(name, Goal::None, &[&file], &[], most));
            }
            Ok(file) => {
                let (mut blocks, bytes) = (Vec::new(), std::fs::read(file)?);
                blocks.extend(bytes.as_chunks::<BLOCK>().0.iter().take(most));
                sets.push(Set { name, goal: Goal::None, blocks });
            }
            Err(error) => missing.push(format!("{name}: {error:#}")),
        }
    }
    let home = std::env::var_os("HOME").unwrap_or_default();
    let cargo = Path::new(&home).join(".cargo/registry/cache");
    let archives: [&Path; 3] = ["/usr/share".as_ref(), "/var".as_ref(), &cargo];
    sets.push(of_files("pictures", Goal::AsMany, &archives, COMPRESSED, most));
    sets.retain(|set| !set.blocks.is_empty());
    Ok((sets, missing))
}
