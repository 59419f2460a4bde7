//! SQLite and PostgreSQL in `ordered` mode through power cuts; see `ordered.rs`.

use crate::common::{run, wait_until};
use crate::databases::{Postgres, Writer};
use crate::dice::{Dice, scaled};
use crate::mounted::{Mounted, open_to_others, plain};
use crate::ordered::{CUTS, Commits, can_run, options};
use crate::power::Host;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Returns the number of commits, if they are whole and the first ones.
fn rows(database: &Path) -> u64 {
    let ask = |question: &str| {
        let ended = run("sqlite3", &[plain(database), question]).well();
        ended.stdout.trim().to_owned()
    };
    assert_eq!(ask("PRAGMA integrity_check"), "ok");
    assert_eq!(ask("SELECT count(*) FROM rows WHERE length(text) <> number % 3000"), "0");
    let (all, last) = (ask("SELECT count(*) FROM rows"), ask("SELECT max(number) FROM rows"));
    assert_eq!(all, last, "commits before the last one are missing");
    last.parse().expect("a number")
}

fn sqlite(journal: &str) {
    if !can_run(&["sqlite3"]) {
        return;
    }
    let mut dice = Dice::new();
    let mut host = Host::new(64, &options(&mut dice), &mut dice);
    let notes = tempfile::NamedTempFile::new().expect("room");
    let mut commits = Commits::new(notes.path().to_owned());
    let mut mounted = Mounted::new(host.server());
    let database = |mounted: &Mounted| mounted.mount_point().join("rows.db");
    let mut writer = Writer::start(&database(&mounted), notes.path(), journal);
    commits.wait(&mut writer);
    // A power cut would remove the table itself.
    host.server().volume(&["flush"]).well();
    for _ in 0..scaled(CUTS) {
        commits.wait(&mut writer);
        let cut = host.cut(mounted, &mut dice);
        drop(writer);
        host.power_on();
        mounted = Mounted::attach(host.server());
        mounted.mount();
        commits.judge(journal, rows(&database(&mounted)), cut);
        writer = Writer::start(&database(&mounted), notes.path(), journal);
    }
    drop(writer);
    mounted.check();
    drop(mounted);
    host.end();
}

#[test]
fn sqlite_with_a_wal_recovers_from_power_cuts_without_a_hole() {
    sqlite("WAL");
}

#[test]
fn sqlite_with_a_rollback_journal_recovers_from_power_cuts_without_a_hole() {
    sqlite("DELETE");
}

/// Arguments: a file for notes, then a command that accepts SQL. Commits one row after the other.
const INSERTS: &str = r#"
import os, struct, subprocess, sys, time
notes = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
psql = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def ask(question):
    psql.stdin.write(question.encode() + b";\n")
    psql.stdin.flush()
    line = psql.stdout.readline()
    if not line: sys.exit("the server has gone")
    return int(line)
number = ask("SELECT coalesce(max(number), 0) FROM rows")
while True:
    number += 1
    text = f"repeat('x', {number % 3000})"
    assert ask(f"INSERT INTO rows VALUES ({number}, {text}) RETURNING number") == number
    os.write(notes, struct.pack("<Qd", number, time.time()))
"#;

/// A PostgreSQL server whose machine can lose its power.
struct Database {
    postgres: Postgres,
    /// Our child: its directory then contains the number of a process that must have ended.
    child: Child,
}

impl Database {
    /// Starts it on the existing data, and waits until it has recovered.
    fn start(programs: &Path, mounted: &Mounted, home: &Path) -> Database {
        let (programs, data) = (programs.to_owned(), mounted.mount_point().join("data"));
        let postgres = Postgres { programs, data, directory: home.to_owned() };
        let arguments = ["-D", plain(&postgres.data), "-k", plain(home)];
        let settings = ["listen_addresses=", "shared_buffers=16MB", "max_wal_size=64MB"];
        let mut command = postgres.command("postgres", &arguments);
        settings.iter().for_each(|setting| _ = command.args(["-c", setting]));
        let mut child = command.spawn().expect("coreutils");
        wait_until("PostgreSQL has recovered", || {
            let ended = child.try_wait().expect("our child");
            assert!(ended.is_none(), "PostgreSQL does not start: {}", said(home));
            postgres.command("pg_isready", &["-q"]).status().is_ok_and(|status| status.success())
        });
        Database { postgres, child }
    }

    /// Starts a writer of numbered rows, and one that moves money, until the power is cut.
    fn load(&self, notes: &Path) -> [Writer; 2] {
        let psql = self.postgres.command("psql", &["-qAt", "postgres"]);
        let mut writer = Command::new("/usr/bin/python3");
        writer.args(["-c", INSERTS]).arg(notes).arg(psql.get_program()).args(psql.get_args());
        writer.env("PGHOST", &self.postgres.directory).env("PGUSER", "postgres");
        let writer = writer.stderr(Stdio::null()).spawn().expect("Debian's Python");
        let arguments = ["-n", "-c", "2", "-T", "3600", "postgres"];
        let mut bench = self.postgres.command("pgbench", &arguments);
        [Writer(writer), Writer(bench.spawn().expect("coreutils"))]
    }

    /// Kills it as if its machine had lost its power: it writes nothing any more.
    fn die(mut self) {
        // It may have ended, because its files are gone.
        let _ = kill_process(Pid::from_child(&self.child), Signal::QUIT);
        self.child.wait().expect("our child");
    }

    /// Stops it as an operator does.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it runs");
        let status = self.child.wait().expect("our child");
        assert!(status.success(), "{}", said(&self.postgres.directory));
    }

    /// Returns the number of rows, if they are whole and the first ones.
    fn rows(&self) -> u64 {
        let wrong = "SELECT count(*) FROM rows WHERE length(text) <> number % 3000";
        assert_eq!(self.postgres.ask(wrong), "0");
        let all = self.postgres.ask("SELECT count(*) FROM rows");
        let last = self.postgres.ask("SELECT coalesce(max(number), 0) FROM rows");
        assert_eq!(all, last, "commits before the last one are missing");
        last.parse().expect("a number")
    }
}

/// Returns its messages.
fn said(home: &Path) -> String {
    fs::read_to_string(home.join("out")).unwrap_or_default()
}

#[test]
fn postgresql_recovers_from_power_cuts_without_a_hole() {
    if !can_run(&[]) {
        return;
    }
    let Some(programs) = Postgres::programs() else { return };
    let mut dice = Dice::new();
    let mut host = Host::new(512, &options(&mut dice), &mut dice);
    let notes = tempfile::NamedTempFile::new().expect("room");
    let mut commits = Commits::new(notes.path().to_owned());
    let mut mounted = Mounted::new(host.server());
    let home = tempfile::Builder::new().prefix("od").tempdir_in("/tmp").expect("room");
    open_to_others(home.path());
    run("chown", &["postgres:", plain(home.path()), plain(&mounted.mount_point())]).well();
    {
        let data = mounted.mount_point().join("data");
        let directory = home.path().to_owned();
        let maker = Postgres { programs: programs.clone(), data, directory };
        let data = plain(&maker.data);
        maker.run("initdb", &["-D", data, "-A", "trust", "--data-checksums", "--no-sync"]);
    }
    let mut database = Database::start(&programs, &mounted, home.path());
    database.postgres.run("pgbench", &["-i", "-q", "-s", "1", "postgres"]);
    let made = "CREATE TABLE rows (number INTEGER PRIMARY KEY, text TEXT)";
    database.postgres.ask(made);
    run("sync", &["-f", plain(&mounted.mount_point())]).well();
    // A power cut would remove all of that.
    host.server().volume(&["flush"]).well();
    for _ in 0..scaled(CUTS) {
        let [mut writer, bench] = database.load(notes.path());
        commits.wait(&mut writer);
        let cut = host.cut(mounted, &mut dice);
        drop((writer, bench));
        database.die();
        host.power_on();
        mounted = Mounted::attach(host.server());
        mounted.mount();
        database = Database::start(&programs, &mounted, home.path());
        commits.judge("PostgreSQL", database.rows(), cut);
        database.postgres.check(0);
    }
    assert!(commits.kept > 0, "nothing was ever kept: this proves nothing");
    database.stop();
    mounted.check();
    drop(mounted);
    host.end();
}
