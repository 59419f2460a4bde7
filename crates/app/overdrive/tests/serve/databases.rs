//! Databases on a mounted volume, through kills of the daemon, and through power cuts.

use crate::common::{Server, have, have_libnbd, image, pause, place, run, wait_until};
use crate::dice::{Dice, scaled};
use crate::mounted::{Mounted, can_mount, kill_and_restart, open_to_others, plain};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Arguments: a database, a file for notes outside of it. Commits one row after the other, and
/// notes each once it is committed, until it is killed or gets an error.
const COMMITS: &str = r#"
import os, sqlite3, struct, sys, time
database, notes, journal = sys.argv[1:]
connection = sqlite3.connect(database, isolation_level=None, timeout=60)
connection.execute(f"PRAGMA journal_mode={journal}")
# EXTRA: with FULL, the deletion of a rollback journal is not flushed, and a power cut right after a
# commit may undo it (https://www.sqlite.org/pragma.html#pragma_synchronous).
connection.execute("PRAGMA synchronous=EXTRA")
connection.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, text TEXT)")
number = connection.execute("SELECT coalesce(max(number), 0) FROM rows").fetchone()[0]
notes = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    number += 1
    connection.execute("INSERT INTO rows VALUES (?, ?)", (number, "x" * (number % 3000)))
    os.write(notes, struct.pack("<Qd", number, time.time()))
"#;

/// A writer that ends with its test.
pub(crate) struct Writer(pub(crate) Child);

impl Writer {
    pub(crate) fn start(database: &Path, notes: &Path, journal: &str) -> Writer {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", COMMITS]).arg(database).arg(notes).arg(journal);
        // Its last messages are about the error that ended it.
        Writer(command.stderr(Stdio::null()).spawn().expect("Debian's Python"))
    }

    fn runs(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn last_note(notes: &Path) -> u64 {
    notes_of(notes).last().map_or(0, |note| note.0)
}

/// Returns a writer's notes: numbers, and their times, in seconds of the wall clock.
pub(crate) fn notes_of(notes: &Path) -> Vec<(u64, f64)> {
    let bytes = fs::read(notes).unwrap_or_default();
    let note = |bytes: &[u8]| {
        let word = |place: usize| bytes[place..place + 8].try_into().expect("eight bytes");
        (u64::from_le_bytes(word(0)), f64::from_le_bytes(word(8)))
    };
    bytes.chunks_exact(16).map(note).collect()
}

/// Checks that every noted row is present, and that all rows are whole.
fn check_rows(database: &Path, notes: &Path) {
    let ask = |question: &str| {
        let ended = run("sqlite3", &[plain(database), question]).well();
        ended.stdout.trim().to_owned()
    };
    assert_eq!(ask("PRAGMA integrity_check"), "ok");
    let last_note = last_note(notes);
    assert!(last_note > 0, "nothing was committed: this proves nothing");
    let there = ask(&format!("SELECT count(*) FROM rows WHERE number <= {last_note}"));
    assert_eq!(there, last_note.to_string(), "commits that were acknowledged are gone");
    assert_eq!(ask("SELECT count(*) FROM rows WHERE length(text) <> number % 3000"), "0");
}

#[test]
fn sqlite_keeps_every_commit_through_kills_of_the_daemon() {
    if !can_mount() || !have_libnbd() || !have(&["sqlite3"]) {
        return;
    }
    let mut dice = Dice::new();
    let place = place();
    let image = image(&place, scaled(128));
    let memory = dice.pick(&["16M", "2M", "200M"]);
    let write = dice.pick(&["back-now", "back"]);
    let durability = dice.pick(&["flush", "ordered"]);
    let options = ["--memory", memory, "--write", write, "--durability", durability];
    let mut server = Server::start(&image, &options);
    let mounted = Mounted::new(&server);
    let database = mounted.mount_point().join("rows.db");
    let notes = place.path().join("notes");
    let mut writer = Writer::start(&database, &notes, dice.pick(&["WAL", "DELETE", "TRUNCATE"]));
    server = kill_and_restart(server, 5, &mut dice);
    let before = last_note(&notes);
    wait_until("it goes on", || last_note(&notes) > before);
    assert!(writer.runs(), "the writer met an error");
    drop(writer);
    check_rows(&database, &notes);
    mounted.check();
    drop(mounted);
    server.end().well();
}

/// C1 for a power cut, seen by a database: the daemon is killed and its memory is not retained, and
/// the client's machine loses all its memory.
#[test]
fn sqlite_keeps_every_commit_through_power_cuts() {
    if !can_mount() || !have_libnbd() || !have(&["sqlite3"]) {
        return;
    }
    let mut dice = Dice::new();
    let place = place();
    let image = image(&place, scaled(128));
    let notes = place.path().join("notes");
    let memory = dice.pick(&["16M", "2M", "200M"]);
    let options = ["--memory", memory, "--write", "back-now", "--no-holder"];
    let journal = dice.pick(&["WAL", "DELETE"]);
    let mut server = Server::start(&image, &options);
    let mut mounted = Mounted::new(&server);
    for _ in 0..scaled(3) {
        let database = mounted.mount_point().join("rows.db");
        let before = last_note(&notes);
        let writer = Writer::start(&database, &notes, journal);
        wait_until("commits", || last_note(&notes) > before + 20);
        pause(Duration::from_millis(dice.between(0, 1000)));
        let home = server.kill();
        // No data that the client still has may reach the image after the cut.
        drop(mounted);
        drop(writer);
        server = Server::start_in(&home, &image, &options);
        mounted = Mounted::attach(&server);
        mounted.mount();
        check_rows(&mounted.mount_point().join("rows.db"), &notes);
    }
    mounted.check();
    drop(mounted);
    server.end().well();
}

/// A private PostgreSQL server, stopped with its test.
pub(crate) struct Postgres {
    pub(crate) programs: PathBuf,
    pub(crate) data: PathBuf,
    /// Directory of its socket and its log.
    pub(crate) directory: PathBuf,
}

impl Postgres {
    /// Returns the directory of Debian's newest version; None, with a printed reason, if there is
    /// none.
    pub(crate) fn programs() -> Option<PathBuf> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let programs = versions.map(|version| version.path().join("bin"));
        let found = programs.filter(|path| path.join("initdb").is_file()).max();
        if found.is_none() {
            assert!(std::env::var_os("CI").is_none(), "PostgreSQL is not there, and this is CI");
            println!("skipped: postgresql not installed");
        }
        found
    }

    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        // PostgreSQL refuses to run as root.
        let mut command = Command::new("timeout");
        command.args([
            &scaled(300).to_string(),
            "setpriv",
            "--reuid=postgres",
            "--regid=postgres",
            "--clear-groups",
        ]);
        command.arg(self.programs.join(program)).args(arguments);
        command.env("PGHOST", &self.directory).env("PGUSER", "postgres").current_dir("/");
        // Not a pipe: the server would keep it open.
        let log = fs::File::options().create(true).append(true).open(self.directory.join("out"));
        let log = log.expect("the directory takes files");
        command.stdout(log.try_clone().expect("a descriptor")).stderr(log);
        command
    }

    pub(crate) fn run(&self, program: &str, arguments: &[&str]) {
        let status = self.command(program, arguments).status().expect("coreutils");
        let log = fs::read_to_string(self.directory.join("out")).unwrap_or_default();
        assert!(status.success(), "{program}: {log}");
    }

    pub(crate) fn start(&self) {
        let options =
            format!("-k {} -c listen_addresses= -c shared_buffers=16MB -c max_wal_size=128MB", {
                self.directory.display()
            });
        let (data, log) = (plain(&self.data), self.directory.join("log"));
        self.run("pg_ctl", &["-D", data, "-l", plain(&log), "-o", &options, "-w", "start"]);
    }

    pub(crate) fn stop(&self, mode: &str) {
        self.run("pg_ctl", &["-D", plain(&self.data), "-m", mode, "-w", "stop"]);
    }

    pub(crate) fn ask(&self, question: &str) -> String {
        let mut command = self.command("psql", &["-At", "-c", question, "postgres"]);
        let output = command.stdout(Stdio::piped()).output().expect("coreutils");
        assert!(output.status.success(), "{question}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// pgbench moves money from nowhere to accounts, tellers, branches and a history: all four sums
    /// must be equal. Then every index and every table are checked.
    pub(crate) fn check(&self, transactions: u64) {
        let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts),
                    (SELECT sum(tbalance) FROM pgbench_tellers),
                    (SELECT sum(bbalance) FROM pgbench_branches),
                    (SELECT coalesce(sum(delta), 0) FROM pgbench_history)";
        let sums = self.ask(sums);
        let mut parts = sums.split('|');
        let first = parts.next().expect("four of them");
        assert!(parts.all(|sum| sum == first), "{sums}");
        let done: u64 = self.ask("SELECT count(*) FROM pgbench_history").parse().expect("a number");
        assert!(done >= transactions, "{done} of {transactions} acknowledged transactions");
        self.run("pg_amcheck", &["--install-missing", "--heapallindexed", "postgres"]);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let stop = ["-D", plain(&self.data), "-m", "immediate", "-t", "10", "stop"];
        let _ = self.command("pg_ctl", &stop).status();
    }
}

/// Returns the number of transactions that pgbench reports.
fn processed(said: &str) -> u64 {
    let line = said.lines().find(|line| line.starts_with("number of transactions actually"));
    let number = line.and_then(|line| line.rsplit(' ').next()).expect("pgbench's summary");
    number.split('/').next().expect("a number").parse().expect("a number")
}

#[test]
fn postgresql_keeps_every_transaction_through_kills_of_the_daemon() {
    if !can_mount() {
        return;
    }
    let Some(programs) = Postgres::programs() else { return };
    let mut dice = Dice::new();
    let place = place();
    let image = image(&place, 768);
    let memory = dice.pick(&["64M", "8M", "512M"]);
    let write = dice.pick(&["back-now", "back"]);
    let durability = dice.pick(&["flush", "ordered"]);
    let options = ["--memory", memory, "--write", write, "--durability", durability];
    let mut server = Server::start(&image, &options);
    let mounted = Mounted::new(&server);
    let home = server.home.path().join("postgres");
    fs::create_dir(&home).expect("a fresh home");
    open_to_others(server.home.path());
    run("chown", &["postgres:", plain(&home), plain(&mounted.mount_point())]).well();
    let data = mounted.mount_point().join("data");
    let postgres = Postgres { programs, data, directory: home.clone() };
    postgres.run("initdb", &["-D", plain(&postgres.data), "-A", "trust", "--data-checksums"]);
    postgres.start();
    postgres.run("pgbench", &["-i", "-q", "-s", "2", "postgres"]);
    let said = home.join("said");
    let seconds = (scaled(5) * 2 + 4).to_string();
    let mut bench = postgres.command("pgbench", &["-n", "-c", "4", "-T", &seconds, "postgres"]);
    bench.stdout(fs::File::create(&said).expect("room"));
    let mut bench = bench.spawn().expect("coreutils");
    server = kill_and_restart(server, 5, &mut dice);
    let status = bench.wait().expect("our child");
    let log = fs::read_to_string(home.join("out")).unwrap_or_default();
    assert!(status.success(), "pgbench met an error: {log}");
    let transactions = processed(&fs::read_to_string(&said).expect("text"));
    assert!(transactions > 0);
    postgres.check(transactions);
    // A crash of the database itself, and a recovery from its log, which is on the volume then.
    postgres.stop("immediate");
    server = server.reborn();
    postgres.start();
    postgres.check(transactions);
    postgres.stop("fast");
    drop(postgres);
    mounted.check();
    drop(mounted);
    server.end().well();
}
