//! `overdrive top`: all volumes, live in a terminal; as plain text or JSON elsewhere.

mod columns;
mod plain;
mod screen;
mod view;

use crate::dashboard::source;
use crossterm::event::{self, Event};
use live::Fleet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use stack::{Exit, Failure};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use view::View;

/// Show all volumes live in the terminal: hit ratio, latency, dirty data, writes and time saved.
///
/// Keys: q ends it, the arrows choose a volume, s changes the order, ? shows all keys. If the
/// output is no terminal, a table is printed at each interval; with --json an object.
///
/// Examples:
///   overdrive top
///   overdrive top --interval 5 | tee volumes.txt
///   overdrive top --json | jq -c '.volumes[] | [.volume, .rates.hit_ratio]'
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Time between two readings, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1",
          value_parser = crate::volumes::interval)]
    interval: Duration,

    /// Print one JSON object at each interval.
    #[arg(long)]
    json: bool,

    /// Use only the daemon at this control socket.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// Longest time without a look at keys and signals.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Longest wait for an event once there may be one. Without a wait, crossterm looks for none.
const EVENT_WAIT: Duration = Duration::from_millis(1);
/// Longest wait for the first answers.
const FIRST: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let broken = |error: io::Error| Failure::new(Exit::Io, format!("the terminal: {error}"));
    // Before other threads are started, which inherit the mask.
    let signals = host::signals().map_err(broken)?;
    let fleet = Fleet::start(source(arguments.control.as_ref()), arguments.interval);
    fleet.wait_for_first(FIRST);
    let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
    let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal() && !is_dumb;
    if arguments.json || !is_terminal {
        plain::run(&fleet, &signals, arguments.interval, arguments.json);
        return Ok(ExitCode::SUCCESS);
    }
    let mut terminal = ratatui::try_init().map_err(broken)?;
    let shown = show(&mut terminal, &fleet, &signals);
    let restored = ratatui::try_restore();
    // A terminal that was closed ends the view, and cannot be restored.
    if let Err(error) = shown.and(restored) {
        // Its drop prints that the cursor stays hidden, which ends in a panic.
        std::mem::forget(terminal);
        if error.raw_os_error().is_none() {
            return Err(broken(error));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the volumes until a key or a signal ends it.
fn show(
    terminal: &mut ratatui::DefaultTerminal,
    fleet: &Fleet,
    signals: &host::File,
) -> io::Result<()> {
    let mut view = View::default();
    let mut number = 0;
    let mut is_old = true;
    while !host::is_stopped_within(signals, Duration::ZERO) {
        let snapshot = fleet.snapshot();
        if is_old || snapshot.number != number {
            number = snapshot.number;
            view.arrange(&snapshot);
            terminal.draw(|frame| screen::draw(frame, &snapshot, &view))?;
        }
        // Ages of silent daemons grow without a change.
        is_old = true;
        if !wait(signals)? {
            return Ok(());
        }
        if !event::poll(EVENT_WAIT)? {
            continue;
        }
        match event::read()? {
            Event::Key(key) if view.press(key).is_some() => return Ok(()),
            _ => is_old = true,
        }
    }
    Ok(())
}

/// Waits for a key, a signal or the next turn. Returns whether the terminal is still there:
/// crossterm would read the end of a closed one for ever.
fn wait(signals: &host::File) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
    match poll(&mut polled, Some(&TURN)) {
        Ok(_) => Ok(!polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)),
        // The signal of a new size.
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
