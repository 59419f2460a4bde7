//! `overdrive top` in a pseudo terminal: it starts, follows keys, sizes and daemons, and leaves the
//! terminal as it was. Elsewhere it prints text or objects.

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

const OVERDRIVE: &str = env!("CARGO_BIN_EXE_overdrive");

fn command(home: &Path, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(home).env("TERM", "xterm-256color");
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(name);
    }
    for name in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME"] {
        command.env(name, home);
    }
    command
}

/// A daemon with a volume of this name, until it is dropped.
struct Served(Child);

impl Served {
    fn start(home: &Path, name: &str) -> Served {
        Served::start_on(home, name, "ram:16M")
    }

    fn start_on(home: &Path, name: &str, backing: &str) -> Served {
        let arguments = ["serve", backing, "--name", name, "--memory", "4M", "-q"];
        let mut command = command(home, OVERDRIVE, &arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert!(line.contains("nbd"), "{line}");
        Served(child)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The contents of a terminal: its letters, and the cursor.
struct Grid {
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// The bytes of a sequence that has not ended, or letters that are not whole.
    rest: Vec<u8>,
    /// Whether the main screen is shown again.
    is_left: bool,
}

const ROWS: usize = 30;
const COLUMNS: usize = 120;

impl Grid {
    fn new() -> Grid {
        let lines = vec![vec![' '; COLUMNS]; ROWS];
        Grid { lines, row: 0, column: 0, rest: Vec::new(), is_left: false }
    }

    fn text(&self) -> String {
        let lines = self.lines.iter().map(|line| line.iter().collect::<String>());
        lines.collect::<Vec<_>>().join("\n")
    }

    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = String::from_utf8_lossy(&self.rest[..whole]).into_owned();
        let mut left = text.as_str();
        while let Some(letter) = left.chars().next() {
            let Some(sequence) = left.strip_prefix("\u{1b}[") else {
                self.put(letter);
                left = &left[letter.len_utf8()..];
                continue;
            };
            let Some(end) = sequence.find(|it: char| it.is_ascii_alphabetic()) else { break };
            self.follow(&sequence[..end], sequence.as_bytes()[end]);
            left = &sequence[end + 1..];
        }
        self.rest.drain(..whole - left.len());
    }

    fn put(&mut self, letter: char) {
        match letter {
            '\r' => self.column = 0,
            '\n' => self.row += 1,
            _ if self.row < ROWS && self.column < COLUMNS => {
                self.lines[self.row][self.column] = letter;
                self.column += 1;
            }
            _ => {}
        }
    }

    fn follow(&mut self, parameters: &str, kind: u8) {
        match (kind, parameters) {
            (b'H', place) => {
                let mut numbers = place.split(';').map(|number| number.parse().unwrap_or(1));
                let mut next = || numbers.next().unwrap_or(1_usize) - 1;
                (self.row, self.column) = (next(), next());
            }
            (b'J', _) => self.lines = vec![vec![' '; COLUMNS]; ROWS],
            (b'l', "?1049") => self.is_left = true,
            _ => {}
        }
    }
}

/// The command in a terminal of its own.
struct Screen {
    child: Child,
    ours: OwnedFd,
    theirs: File,
    before: Termios,
    received: Receiver<Vec<u8>>,
    grid: Grid,
}

impl Screen {
    fn start(home: &Path, arguments: &[&str]) -> Screen {
        let (ours, theirs) = terminal();
        let before = tcgetattr(&theirs).expect("a terminal");
        let end = || Stdio::from(theirs.try_clone().expect("a descriptor"));
        // As the leader of a session it gets the signal of a new size.
        let arguments = [&["--ctty", "--wait", OVERDRIVE, "top"], arguments].concat();
        let mut command = command(home, "setsid", &arguments);
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("setsid");
        let (sender, received) = channel();
        let mut reader = File::from(ours.try_clone().expect("a descriptor"));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Screen { child, ours, theirs, before, received, grid: Grid::new() }
    }

    /// Waits until the screen is as the function says.
    fn wait(&mut self, is_there: impl Fn(&Grid) -> bool) {
        while !is_there(&self.grid) {
            let bytes = self.received.recv().expect("the terminal is open");
            self.grid.take(&bytes);
        }
    }

    fn wait_for(&mut self, words: &str) {
        self.wait(|grid| grid.text().contains(words));
    }

    /// Waits until the line of a volume has this state.
    fn wait_for_state(&mut self, volume: &str, state: &str) {
        self.wait(|grid| {
            grid.text().lines().any(|line| line.starts_with(volume) && line.contains(state))
        });
    }

    fn press(&mut self, keys: &str) {
        let mut writer = File::from(self.ours.try_clone().expect("a descriptor"));
        writer.write_all(keys.as_bytes()).expect("it listens");
    }

    /// Waits for the end; the terminal must be as it was before.
    fn end(mut self) -> ExitStatus {
        self.wait(|grid| grid.is_left);
        let status = self.child.wait().expect("it ends");
        let after = tcgetattr(&self.theirs).expect("a terminal");
        assert_eq!(after.local_modes, self.before.local_modes);
        assert_eq!(after.input_modes, self.before.input_modes);
        assert_eq!(after.output_modes, self.before.output_modes);
        status
    }
}

/// Opens a pseudo terminal: both of its ends.
fn terminal() -> (OwnedFd, File) {
    let ours =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("ours");
    let name = ptsname(&ours, Vec::new()).expect("a name").into_string().expect("plain");
    let theirs = OpenOptions::new().read(true).write(true).open(name).expect("a terminal");
    set_size(&ours, 100);
    (ours, theirs)
}

fn set_size(terminal: &OwnedFd, columns: u16) {
    let size = Winsize { ws_row: 30, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("ours");
}

#[test]
fn it_follows_keys_sizes_and_daemons_and_restores_the_terminal() {
    let home = tempfile::tempdir().expect("a directory");
    let mail = Served::start(home.path(), "mail");
    let _db = Served::start(home.path(), "db");
    let mut screen = Screen::start(home.path(), &["--interval", "0.1"]);
    screen.wait_for("overdrive top: 2 volumes, by name");
    let raw = tcgetattr(&screen.theirs).expect("a terminal").local_modes;
    assert!(!raw.intersects(LocalModes::ECHO | LocalModes::ICANON));
    screen.wait_for_state("mail", "serving");
    screen.press("?");
    screen.wait_for("change the order");
    screen.press("?s");
    screen.wait_for("by reads, the most first");
    screen.press("\u{1b}[B");
    screen.wait_for(" mail \u{2500}");
    // A narrow terminal has fewer columns.
    set_size(&screen.ours, 60);
    screen.wait(|grid| !grid.text().contains("TIME-SAVED") && grid.text().contains("HIT%"));
    set_size(&screen.ours, 100);
    screen.wait_for("TIME-SAVED");
    drop(mail);
    screen.wait_for_state("mail", "ended");
    let _again = Served::start(home.path(), "mail");
    screen.wait_for_state("mail", "serving");
    screen.press("q");
    assert!(screen.end().success());
}

#[test]
fn a_volume_is_shown_through_an_upgrade() {
    let home = tempfile::tempdir().expect("a directory");
    let image = home.path().join("db.img");
    File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("room");
    let served = Served::start_on(home.path(), "db", "db.img");
    let mut screen = Screen::start(home.path(), &["--interval", "0.1"]);
    screen.wait_for_state("db", "serving");
    for _ in 0..2 {
        let upgraded = command(home.path(), OVERDRIVE, &["upgrade"]).output().expect("it runs");
        let said = String::from_utf8_lossy(&upgraded.stderr);
        assert!(upgraded.status.success(), "{said}");
        screen.wait_for_state("db", "serving");
    }
    // It is still followed afterwards.
    drop(served);
    screen.wait_for_state("db", "ended");
    screen.press("q");
    assert!(screen.end().success());
}

#[test]
fn a_terminal_of_any_size_is_survived() {
    let home = tempfile::tempdir().expect("a directory");
    let _db = Served::start(home.path(), "db");
    let mut screen = Screen::start(home.path(), &["--interval", "0.1"]);
    screen.wait_for_state("db", "serving");
    for (columns, rows) in [(1, 1), (3, 2), (20, 5), (40, 3), (0, 0), (300, 100), (100, 30)] {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&screen.ours, size).expect("ours");
        screen.press("?s?");
    }
    screen.wait_for("TIME-SAVED");
    screen.press("q");
    assert!(screen.end().success());
}

#[test]
fn ctrl_c_and_signals_restore_the_terminal_too() {
    let home = tempfile::tempdir().expect("a directory");
    let mut screen = Screen::start(home.path(), &[]);
    screen.wait_for("No daemon of this user");
    screen.press("\u{3}");
    assert!(screen.end().success());
    let mut screen = Screen::start(home.path(), &[]);
    screen.wait_for("No daemon of this user");
    // The child is setsid, which waits for the command.
    let pid = screen.child.id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.expect("a process");
    let top = children.split_whitespace().next().map_or(pid, |top| top.parse().expect("a number"));
    kill_process(Pid::from_raw(top.cast_signed()).expect("a process"), Signal::TERM).expect("ours");
    screen.end();
}

/// Without a shell that would pass on the signal, and without a reader that keeps the terminal.
#[test]
fn a_terminal_that_was_closed_ends_it() {
    let home = tempfile::tempdir().expect("a directory");
    let (ours, theirs) = terminal();
    let mut command = command(home.path(), OVERDRIVE, &["top"]);
    let end = || Stdio::from(theirs.try_clone().expect("a descriptor"));
    let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("it starts");
    // The command has copies of its own.
    drop((command, theirs));
    let (mut shown, mut reader) = (Vec::new(), File::from(ours));
    // Spaces are not written.
    while !String::from_utf8_lossy(&shown).contains("daemon") {
        let mut bytes = [0; 4096];
        let count = reader.read(&mut bytes).expect("it shows something");
        shown.extend(&bytes[..count]);
    }
    drop(reader);
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status}");
}

#[test]
fn other_programs_get_text_and_objects() {
    let home = tempfile::tempdir().expect("a directory");
    let _db = Served::start(home.path(), "db");
    let first_lines = |arguments: &[&str], count: usize| {
        let arguments = [&["top", "--interval", "0.1"], arguments].concat();
        let mut top = command(home.path(), OVERDRIVE, &arguments);
        let mut child = top.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let lines: Vec<String> = lines.take(count).map(|line| line.expect("text")).collect();
        // Its output is closed: it ends.
        assert!(child.wait().expect("it ends").success());
        lines
    };
    let lines = first_lines(&[], 5);
    assert!(lines[0].starts_with("VOLUME") && lines[0].contains("TIME-SAVED"), "{lines:?}");
    assert!(lines[1].starts_with("db ") && lines[1].contains("serving"), "{lines:?}");
    assert!(!lines.concat().contains('\u{1b}') && lines[3].starts_with("VOLUME"), "{lines:?}");
    for line in first_lines(&["--json"], 2) {
        let object: serde_json::Value = serde_json::from_str(&line).expect("an object");
        assert_eq!(object["schema"], "overdrive.top/1");
        assert_eq!(
            (&object["volumes"][0]["volume"], &object["volumes"][0]["answers"]),
            (&"db".into(), &true.into())
        );
    }
}

#[test]
fn output_without_a_terminal_shows_a_daemon_that_dies_and_none() {
    let home = tempfile::tempdir().expect("a directory");
    let db = Served::start(home.path(), "db");
    let mut top = command(home.path(), OVERDRIVE, &["top", "--interval", "0.1"]);
    top.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    let mut child = top.spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut wait_for = |words: &str| {
        let found = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(words)));
        assert!(found.is_some(), "{words}");
    };
    wait_for("serving");
    drop(db);
    wait_for("ended");
    wait_for("db: Its daemon");
    drop(lines);
    assert!(child.wait().expect("it ends").success());
    // Without a daemon there is a heading, and one message.
    let empty = tempfile::tempdir().expect("a directory");
    let mut top = command(empty.path(), OVERDRIVE, &["top", "--interval", "0.1"]);
    top.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    let mut child = top.spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let heads = lines.take(6).map(|line| line.expect("text"));
    assert!(heads.filter(|line| line.starts_with("VOLUME")).count() >= 3);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("no daemon of this user serves a volume").count(), 1, "{said}");
}
