//! Facts about commands that their definitions do not contain: statuses, files, variables, related
//! commands. Each is for a command and for those below it, by the names of their pages.

/// Pages of other programs.
pub(super) const OTHERS: [&str; 3] = ["mount(8)", "nbd(7)", "systemd.mount(5)"];

/// A status or a name, and its meaning.
type Fact<Key> = (Key, &'static str);

const STATUSES: [Fact<u8>; 8] = [
    (0, "Success."),
    (1, "A negative result: the named volume is not served, or the answer is no."),
    (2, "Wrong usage: an option, a setting or a configuration is not valid. Nothing was changed."),
    (3, "No daemon answers."),
    (4, "Permission is missing."),
    (5, "The backing, the device or the name is in use; the message names the user."),
    (6, "An I/O error of the backing. Dirty data stays in memory."),
    (7, "Data integrity: the data cannot be used, or differs from the written data."),
];

/// Statuses of commands with meanings of their own.
const OTHER_STATUSES: [(&str, &[Fact<u8>]); 9] = [
    (
        "overdrive-bench",
        &[
            (0, "The suite has ended."),
            (1, "Ctrl-C has ended the suite; the results so far were printed."),
            (2, "Wrong usage."),
            (3, "No daemon answers."),
            (4, "Permission is missing."),
            (5, "The target is in use, or filebench could not remove its files."),
            (6, "The target failed."),
            (7, "With --verify: data differs from the written data."),
        ],
    ),
    (
        "overdrive-drive-erase",
        &[
            (0, "The drive was erased, or --dry-run has printed the plan."),
            (1, "Commands were printed that the user has to run: nothing was erased."),
            (2, "Wrong usage, or what was typed is not the serial number: nothing was erased."),
            (4, "Permission is missing."),
            (5, "The drive is in use."),
            (6, "The drive failed."),
            (7, "Blocks of the drive still have their data."),
        ],
    ),
    (
        "overdrive-demo",
        &[
            (0, "The demo ran, whatever it measured."),
            (1, "It could not run."),
            (7, "Data differs from the written data."),
        ],
    ),
    (
        "overdrive-advise",
        &[
            (0, "A cache helps, or may help."),
            (1, "It would not; or watching ended early, and the results so far were printed."),
            (2, "Wrong usage, or the target cannot be read."),
        ],
    ),
    (
        "overdrive-doctor",
        &[
            (0, "'overdrive serve' can work here, and nothing needs mending."),
            (1, "It cannot, or a setting of the machine needs mending."),
        ],
    ),
    (
        "overdrive-dashboard",
        &[
            (0, "A signal has ended it."),
            (2, "Other machines could reach the address, or it is not valid."),
            (4, "The port is not permitted, or the directory of the tokens is not safe."),
            (5, "The port is in use."),
        ],
    ),
    (
        "overdrive-top",
        &[
            (0, "A key or a signal has ended it, or its output was closed."),
            (2, "Wrong usage."),
            (6, "The terminal cannot be used."),
        ],
    ),
    (
        "overdrive-sim",
        &[
            (0, "The simulation has ended."),
            (1, "Ctrl-C has ended it; the results so far were printed."),
            (2, "Wrong usage, or the trace cannot be read."),
        ],
    ),
    (
        "overdrive-sweep",
        &[
            (0, "All jobs have results."),
            (1, "Rows have no figures, or Ctrl-C has ended it; the results so far were written."),
            (
                2,
                "Wrong usage, a manifest that is not valid, or no Python package: nothing was run.",
            ),
        ],
    ),
];

/// Commands that serve volumes, or that act on served ones.
const SERVING: [&str; 10] = [
    "overdrive",
    "overdrive-attach",
    "overdrive-dashboard",
    "overdrive-detach",
    "overdrive-mount",
    "overdrive-serve",
    "overdrive-top",
    "overdrive-umount",
    "overdrive-upgrade",
    "overdrive-volume",
];

/// Commands that start a daemon, and the program itself.
const STARTING: [&str; 4] = ["overdrive", "overdrive-attach", "overdrive-mount", "overdrive-serve"];

/// Commands that read or record samples, besides daemons.
const RECORDING: [&str; 3] =
    ["overdrive-drive-health", "overdrive-drive-history", "overdrive-volume-history"];

const MEASURING: [&str; 1] = ["overdrive-bench"];

const REVIEWING: [&str; 1] = ["overdrive-review"];

const SWEEPING: [&str; 1] = ["overdrive-sweep"];

const SHOWING: [&str; 1] = ["overdrive-doctor"];

const MEASURING_MACHINE: [&str; 1] = ["overdrive-demo"];

const VIEWING: [&str; 1] = ["overdrive-dashboard"];

const FILES: [(&[&str], Fact<&str>); 9] = [
    (
        &VIEWING,
        (
            "/run/overdrive/dashboard, $XDG_RUNTIME_DIR/overdrive/dashboard",
            "The tokens: PORT.token and PORT.admin-token. Only this user can read them.",
        ),
    ),
    (&STARTING, ("/dev/overdrive/NAME", "The block device of the attached volume NAME.")),
    (
        &STARTING,
        (
            "/etc/overdrive/NAME.toml",
            "Volumes of the services overdrive@NAME and overdrive-device@NAME.",
        ),
    ),
    (
        &SERVING,
        (
            "/run/overdrive, $XDG_RUNTIME_DIR/overdrive",
            "Control sockets of the user's daemons and holders. Only this user and root can use \
             them.",
        ),
    ),
    (
        &STARTING,
        (
            "/var/lib/overdrive, $XDG_STATE_HOME/overdrive, ~/.local/state/overdrive",
            "Lists of hot blocks (hot/ID.hot), from which a cache is filled after a start; samples \
             of volumes and drives (samples.sqlite3).",
        ),
    ),
    (
        &RECORDING,
        (
            "/var/lib/overdrive/samples.sqlite3, $XDG_STATE_HOME/overdrive/samples.sqlite3, \
             ~/.local/state/overdrive/samples.sqlite3",
            "Samples of volumes and drives over time: a SQLite database.",
        ),
    ),
    (
        &STARTING,
        (
            "/usr/lib/systemd/system/overdrive@.service, overdrive-device@.service",
            "The services: volumes over NBD, and volumes that are block devices.",
        ),
    ),
    (
        &MEASURING,
        (
            "$XDG_DATA_HOME/overdrive/history.sqlite3, ~/.local/share/overdrive/history.sqlite3",
            "Results of earlier runs.",
        ),
    ),
    (
        &REVIEWING,
        (
            "$XDG_DATA_HOME/overdrive/reviews, ~/.local/share/overdrive/reviews",
            "Results of interrupted reviews, from which the same command continues.",
        ),
    ),
];

const VARIABLES: [(&[&str], Fact<&str>); 12] = [
    (
        &SERVING,
        (
            "XDG_RUNTIME_DIR",
            "Directory of the control sockets; they are in its directory 'overdrive'.",
        ),
    ),
    (&STARTING, ("STATE_DIRECTORY", "Directory of the lists of hot blocks; systemd sets it.")),
    (&STARTING, ("XDG_STATE_HOME", "The same, if STATE_DIRECTORY is not set.")),
    (
        &STARTING,
        ("NOTIFY_SOCKET", "Socket of the service manager that is notified of starts and stops."),
    ),
    (
        &STARTING,
        (
            "OVERDRIVE_HISTORY",
            "File of the samples of volumes and drives, or 'off': none are recorded.",
        ),
    ),
    (
        &RECORDING,
        ("OVERDRIVE_HISTORY", "File of the samples of drives, or 'off': none are recorded."),
    ),
    (&MEASURING, ("XDG_DATA_HOME", "Directory of the results of earlier runs.")),
    (&REVIEWING, ("XDG_DATA_HOME", "Directory of the results of interrupted reviews.")),
    (&SHOWING, ("NO_COLOR", "If it is set and not empty, the output has no colours.")),
    (&SHOWING, ("TERM", "If it is 'dumb', the output has no colours.")),
    (&SWEEPING, ("OVERDRIVE_PYTHON", "The Python that has the package 'overdrive'.")),
    (&MEASURING_MACHINE, ("TMPDIR", "Directory of the image, instead of /var/tmp.")),
];

const RELATED: [(&str, &[&str]); 13] = [
    ("overdrive-attach", &["overdrive-detach", "overdrive-mount", "overdrive-serve"]),
    ("overdrive-bench", &["overdrive-drive-models", "overdrive-sim"]),
    ("overdrive-dashboard", &["overdrive-top", "overdrive-volume-stats"]),
    ("overdrive-detach", &["overdrive-attach", "overdrive-volume-list"]),
    ("overdrive-mount", &["overdrive-attach", "overdrive-umount"]),
    ("overdrive-pool", &["overdrive-serve"]),
    ("overdrive-review", &["overdrive-bench", "overdrive-drive-models"]),
    ("overdrive-serve", &["overdrive-attach", "overdrive-volume", "overdrive-upgrade"]),
    ("overdrive-sim", &["overdrive-bench", "overdrive-sweep"]),
    ("overdrive-sweep", &["overdrive-sim"]),
    ("overdrive-top", &["overdrive-dashboard", "overdrive-volume-stats"]),
    ("overdrive-umount", &["overdrive-mount"]),
    ("overdrive-upgrade", &["overdrive-serve", "overdrive-volume-list"]),
];

/// Whether a page is that of a command, or of one below it. Only the program's own page is about
/// the program.
fn is_about(page: &str, command: &str) -> bool {
    let below = page.strip_prefix(command);
    below == Some("") || (command != "overdrive" && below.is_some_and(|it| it.starts_with('-')))
}

pub(super) fn statuses(page: &str) -> &'static [Fact<u8>] {
    let other = OTHER_STATUSES.iter().find(|(command, _)| is_about(page, command));
    other.map_or(STATUSES.as_slice(), |(_, statuses)| statuses)
}

fn facts_of(
    page: &str,
    all: &'static [(&'static [&'static str], Fact<&'static str>)],
) -> Vec<Fact<&'static str>> {
    let is_it = |commands: &[&str]| commands.iter().any(|command| is_about(page, command));
    all.iter().filter(|(commands, _)| is_it(commands)).map(|(_, fact)| *fact).collect()
}

pub(super) fn files(page: &str) -> Vec<Fact<&'static str>> {
    facts_of(page, &FILES)
}

pub(super) fn variables(page: &str) -> Vec<Fact<&'static str>> {
    facts_of(page, &VARIABLES)
}

/// Returns the pages of related commands.
pub(super) fn related(page: &str) -> &'static [&'static str] {
    let found = RELATED.iter().find(|(command, _)| *command == page);
    found.map_or(&[], |(_, related)| related)
}

/// Returns all commands that facts are about.
#[cfg(test)]
pub(super) fn prefixes() -> impl Iterator<Item = &'static str> {
    let lists = FILES.iter().chain(&VARIABLES).flat_map(|(commands, _)| commands.iter().copied());
    let related = RELATED
        .iter()
        .flat_map(|(name, related)| std::iter::once(*name).chain(related.iter().copied()));
    lists.chain(related).chain(OTHER_STATUSES.iter().map(|(command, _)| *command))
}
