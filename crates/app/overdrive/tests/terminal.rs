//! The command in a terminal: a pseudo terminal of some width.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::OpenOptions;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

const OVERDRIVE: &str = env!("CARGO_BIN_EXE_overdrive");
const ESCAPE: char = '\u{1b}';

/// Returns the command with a runtime directory of its own, and no variable that changes colours.
fn overdrive(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(OVERDRIVE);
    command.args(arguments).current_dir(home).env("OVERDRIVE", OVERDRIVE);
    // CI: with it, a terminal without colours counts as one with colours (anstyle-query).
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "CI"] {
        command.env_remove(name);
    }
    for name in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME"] {
        command.env(name, home);
    }
    command.env("TERM", "xterm-256color");
    command
}

/// Returns the command without its standard error: on a busy machine, progress is shown there.
fn quiet(command: &Command) -> Command {
    let mut quiet = Command::new("/bin/sh");
    quiet.args(["-c", "exec \"$0\" \"$@\" 2>/dev/null", OVERDRIVE]).args(command.get_args());
    quiet.current_dir(command.get_current_dir().expect("a home"));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => quiet.env(name, value),
            None => quiet.env_remove(name),
        };
    }
    quiet
}

/// Runs a command in a terminal of this width. Returns all that the terminal has received.
fn in_terminal(mut command: Command, columns: u16) -> String {
    let ours =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("ours");
    let size = Winsize { ws_row: 0, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&ours, size).expect("ours");
    let name = ptsname(&ours, Vec::new()).expect("a name").into_string().expect("plain");
    let theirs = OpenOptions::new().read(true).write(true).open(name).expect("a terminal");
    let end = || Stdio::from(OwnedFd::from(theirs.try_clone().expect("room")));
    command.stdin(end()).stdout(end()).stderr(end());
    let mut child = command.spawn().expect("overdrive can be started");
    // The terminal ends with its last user, which must not be this process.
    drop((command, theirs));
    let mut received = Vec::new();
    // Reading fails when the other end is closed.
    let _ = std::fs::File::from(ours).read_to_end(&mut received);
    let _ = child.wait();
    String::from_utf8(received).expect("text").replace('\r', "")
}

/// Returns the text without colours.
fn plain(text: &str) -> String {
    let mut parts = text.split(ESCAPE);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

fn width(text: &str) -> usize {
    plain(text).lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn help_has_colours_and_the_width_of_the_terminal() {
    let home = tempfile::tempdir().expect("a directory");
    for arguments in
        [&["--help"][..], &["serve", "--help"], &["bench", "qd1", "-h"], &["sim", "-h"]]
    {
        for (columns, least, most) in [(80, 70, 80), (100, 80, 100), (200, 80, 100)] {
            let help = in_terminal(overdrive(home.path(), arguments), columns);
            let width = width(&help);
            assert!((least..=most).contains(&width), "{arguments:?}: {width} of {columns}: {help}");
            assert!(help.contains(ESCAPE), "{arguments:?}: {help}");
        }
    }
    let mut command = overdrive(home.path(), &["--help"]);
    command.env("NO_COLOR", "1");
    assert!(!in_terminal(command, 100).contains(ESCAPE));
}

/// Runs commands as the captive of a volume with long names.
fn with_volume(home: &Path, script: &str, columns: u16) -> String {
    let directory =
        home.join("a directory with a long name").join("and another one, as long as it");
    std::fs::create_dir_all(&directory).expect("room");
    let image = directory.join("the-database-of-all-customers.img");
    std::fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("room");
    let image = image.to_str().expect("plain");
    let name = "the-database-of-all-customers-in-europe";
    let serve = ["serve", image, "--name", name, "--memory", "4M", "-q", "--run", script];
    in_terminal(quiet(&overdrive(home, &serve)), columns)
}

#[test]
fn tables_fit_the_terminal_with_long_names_and_paths() {
    let home = tempfile::tempdir().expect("a directory");
    for columns in [60, 80, 100, 200] {
        let listed = with_volume(home.path(), "\"$OVERDRIVE\" volume list", columns);
        let lines: Vec<String> = plain(&listed).lines().map(str::to_owned).collect();
        assert!(width(&listed) <= columns.into(), "{listed}");
        // The name is whole; a column without room is named.
        assert!(
            lines[1].starts_with("the-database-of-all-customers-in-europe serving"),
            "{listed}"
        );
        let is_missing = |name: &str| lines[2..].iter().any(|line| line.contains(name));
        assert_eq!(is_missing("MOUNTED"), columns < 200, "{listed}");
        assert_eq!(lines[1].ends_with(".img"), !is_missing("BACKING"), "{listed}");
        // The state and the headings have colours.
        assert!(
            listed.contains("\u{1b}[32mserving") && listed.contains("\u{1b}[1mNAME"),
            "{listed}"
        );
        let stats = with_volume(home.path(), "\"$OVERDRIVE\" volume stats --all", columns);
        assert!(width(&stats) <= usize::from(columns.min(100)), "{stats}");
        assert!(stats.contains("latency"), "{stats}");
        let watched =
            with_volume(home.path(), "timeout 1 \"$OVERDRIVE\" volume stats --watch 0.1", columns);
        assert!(width(&watched) <= columns.into() && watched.contains("READS/S"), "{watched}");
    }
    for arguments in [
        &["drive", "models"][..],
        &["drive", "models", "samsung-840-evo-250"],
        &["doctor", "--all"],
        &["bench", "list"],
        &["bench", "qd1", "model:samsung-840-evo-250", "--time", "10ms"],
        &["bench", "history"],
        &["volume", "stats", "--explain"],
    ] {
        for columns in [80, 100] {
            let shown = in_terminal(quiet(&overdrive(home.path(), arguments)), columns);
            let fits = width(&shown) <= columns.into() && shown.lines().count() > 1;
            assert!(fits, "{arguments:?}: {shown}");
        }
    }
}

#[test]
fn long_messages_are_broken_at_the_width_of_a_terminal_and_only_there() {
    let home = tempfile::tempdir().expect("a directory");
    for arguments in [&["drive", "models", "samsung-840-evo-2"][..], &["bench", "qd2", "x"]] {
        let mut piped = overdrive(home.path(), arguments);
        let piped = piped.env("COLUMNS", "60").output().expect("it starts").stderr;
        let piped = String::from_utf8(piped).expect("text");
        assert!(width(&piped) > 60, "{piped}");
        for columns in [60, 80] {
            let shown = in_terminal(overdrive(home.path(), arguments), columns);
            assert!(width(&shown) <= columns.into(), "{shown}");
            let words =
                |text: &str| plain(text).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&shown), words(&piped));
        }
    }
}

#[test]
fn another_program_gets_whole_rows_without_colours() {
    let home = tempfile::tempdir().expect("a directory");
    let listed = with_volume(home.path(), "\"$OVERDRIVE\" volume list | cat", 80);
    assert!(!listed.contains(ESCAPE) && listed.contains("one, as long as it/the-"), "{listed}");
    let script = "COLUMNS=90 \"$OVERDRIVE\" volume list | cat";
    assert!(width(&with_volume(home.path(), script, 200)) <= 90);
    let script = "COLUMNS=90 \"$OVERDRIVE\" volume list --noheadings | cat";
    assert!(with_volume(home.path(), script, 80).contains("/and another one, as long as it/the-"));
    let piped = |name: &str, value: &str| {
        let mut command = overdrive(home.path(), &["doctor"]);
        let output = command.env(name, value).output().expect("it starts");
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(!piped("CLICOLOR", "1").contains(ESCAPE));
    assert!(piped("CLICOLOR_FORCE", "1").contains(ESCAPE));
}

#[test]
fn colours_can_be_turned_off_and_objects_never_have_any() {
    let home = tempfile::tempdir().expect("a directory");
    let doctor = |arguments: &[&str], name: &str, value: &str| {
        let mut command = overdrive(home.path(), arguments);
        command.env(name, value);
        in_terminal(quiet(&command), 100)
    };
    assert!(doctor(&["doctor"], "LANG", "C").contains(ESCAPE));
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb"), ("CLICOLOR", "0")] {
        assert!(!doctor(&["doctor"], name, value).contains(ESCAPE), "{name}");
    }
    for arguments in [
        &["doctor", "--json"][..],
        &["bench", "list", "--json"],
        &["drive", "models", "--json"],
        &["volume", "stats", "--explain", "--json"],
    ] {
        let printed = doctor(arguments, "CLICOLOR_FORCE", "1");
        let object: serde_json::Value = serde_json::from_str(&printed).expect("one object");
        let schema = object["schema"].as_str().unwrap_or_default();
        assert!(schema.starts_with("overdrive.") && schema.ends_with("/1"), "{arguments:?}");
        assert!(!printed.contains(ESCAPE), "{arguments:?}");
    }
}

#[test]
fn messages_about_errors_have_a_colour_of_their_own() {
    let home = tempfile::tempdir().expect("a directory");
    let missing = ["drive", "models", "no-such-model"];
    let said = in_terminal(overdrive(home.path(), &missing), 100);
    assert!(said.starts_with("\u{1b}[1m\u{1b}[31moverdrive:\u{1b}[0m there is no"), "{said:?}");
    let mut command = overdrive(home.path(), &missing);
    command.env("NO_COLOR", "1");
    assert!(in_terminal(command, 100).starts_with("overdrive: there is no"));
}
