//! Events of a daemon besides kills: stops, upgrades, freezes, failing backings.

use crate::plan::Event;
use crate::run::{Clients, Run};
use crate::stage::Daemon;
use crate::time::{here, rest, wait_until};
use anyhow::{Context, Result, ensure};
use nbd::client::{Connection, Wish};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest time until a volume is in a state.
const PATIENCE: Duration = Duration::from_secs(20);

impl Run {
    /// Runs the event on a daemon under load.
    pub(crate) fn happen(
        &mut self,
        event: &Event,
        daemon: &mut Daemon,
        clients: Clients,
    ) -> Result<()> {
        match event {
            Event::Stop => return self.stop(daemon, clients),
            Event::Flush => return self.flush(daemon, clients),
            Event::Quiet => return self.quiet(daemon, clients),
            Event::Rescue => return self.rescue(daemon, clients),
            Event::Upgrade => return self.upgrade(daemon, clients),
            Event::Holder => self.holder()?,
            Event::Freeze => self.freeze()?,
            Event::Switch => self.switch()?,
            Event::Retry => self.fail_and_mend()?,
            Event::Kill(_)
            | Event::LostFlush(_)
            | Event::Cut(_)
            | Event::Change
            | Event::Resize => {}
        }
        rest(here(Duration::from_millis(self.random.below(300))));
        self.finish(daemon, clients)
    }

    /// SIGTERM: all answered changes are on the backing, and durable.
    fn stop(&mut self, daemon: &mut Daemon, clients: Clients) -> Result<()> {
        daemon.signal(Signal::TERM);
        clients.join();
        let status = daemon.wait()?;
        self.tally.stops += 1;
        self.ledger().note("stopped");
        if status != 0 {
            self.accuse(format!("a stop ended with status {status}: {}", daemon.messages()));
            return Ok(());
        }
        self.ledger().all_durable();
        self.left = None;
        let (image, unflushed) = self.dump("stopped")?;
        if unflushed > 0 {
            self.accuse(format!("{unflushed} units are not flushed after a stop"));
        }
        self.ledger().judge_image(&image);
        Ok(())
    }

    /// `volume flush` under load: changes answered before it survive a power cut after it,
    /// whichever durability the daemon has.
    fn flush(&mut self, daemon: &mut Daemon, clients: Clients) -> Result<()> {
        let sent_at = self.ledger().send_flush();
        self.workspace.well(&["volume", "flush", "v"])?;
        self.ledger().durable(sent_at);
        self.tally.flushes += 1;
        self.ledger().note("flushed by the operator");
        rest(here(Duration::from_millis(self.random.below(40))));
        self.cut_now(daemon, clients)
    }

    /// No more requests: the daemon makes all changes durable that a flush has covered, and a power
    /// cut then loses nothing.
    fn quiet(&mut self, daemon: &mut Daemon, clients: Clients) -> Result<()> {
        self.shared.stop.store(true, Ordering::SeqCst);
        clients.join();
        let Err(why) = self.flush_as_client() else {
            if !wait_until(PATIENCE * 3, || self.workspace.is_clean()) {
                self.accuse("what is dirty is not written out while no request comes".to_owned());
            }
            self.ledger().all_durable();
            self.tally.quiets += 1;
            self.ledger().note("quiet");
            return self.cut_now(daemon, Clients::default());
        };
        self.accuse(format!("a client could not flush: {why}"));
        Ok(())
    }

    /// Flushes as a client without other requests. In doubt its first flush must fail.
    fn flush_as_client(&self) -> std::io::Result<()> {
        let mut connection = Connection::open(&self.workspace.socket(), Wish::default())?;
        if self.shared.in_doubt.load(Ordering::SeqCst) && connection.flush().is_ok() {
            self.accuse("the first flush of a client was answered well in doubt".to_owned());
        }
        connection.flush()
    }

    /// `overdrive upgrade`: clients reconnect, and find all data.
    fn upgrade(&mut self, daemon: &mut Daemon, clients: Clients) -> Result<()> {
        if let Err(error) = self.workspace.well(&["upgrade"]) {
            self.accuse(format!("{error:#}"));
        }
        clients.join();
        self.tally.upgrades += 1;
        self.ledger().note("upgraded");
        self.ledger().begin_life(self.left.context("a daemon was there")?);
        self.shared.errors_expected.store(false, Ordering::SeqCst);
        let Some(clients) = self.serve(daemon)? else { return Ok(()) };
        rest(here(Duration::from_millis(100 + self.random.below(200))));
        self.finish(daemon, clients)
    }

    /// The holder dies: the daemon must start another one.
    fn holder(&mut self) -> Result<()> {
        let killed = self.workspace.kill_holders()?;
        if killed != 1 {
            self.accuse(format!("{killed} holders were there, not one"));
            return Ok(());
        }
        self.tally.holders += 1;
        self.ledger().note("holder killed");
        if !wait_until(PATIENCE, || self.workspace.has_holder()) {
            self.accuse("the daemon has not started another holder".to_owned());
        }
        Ok(())
    }

    /// A freeze: the backing holds all answered changes, durably, and does not change.
    fn freeze(&mut self) -> Result<()> {
        let sent_at = self.ledger().send_flush();
        self.workspace.well(&["volume", "freeze", "v"])?;
        self.ledger().durable(sent_at);
        self.tally.freezes += 1;
        self.ledger().note("frozen");
        let (before, unflushed) = self.dump("frozen")?;
        if unflushed > 0 {
            self.accuse(format!("{unflushed} units are not flushed in a freeze"));
        }
        self.ledger().judge_image(&before);
        rest(here(Duration::from_millis(150)));
        let (after, _) = self.dump("frozen")?;
        if before != after {
            let place = before.iter().zip(&after).position(|(one, two)| one != two);
            self.accuse(format!("the backing changed in a freeze, at byte {place:?}"));
        }
        self.workspace.well(&["volume", "resume", "v"]).map(drop)
    }

    /// Compression is switched under load.
    fn switch(&mut self) -> Result<()> {
        for _ in 0..1 + self.random.below(8) {
            let how = ["off", "auto", "lz4", "zstd"][self.random.below(4) as usize];
            self.workspace.well(&["volume", "set", "v", &format!("compress={how}")])?;
            self.ledger().note(&format!("compress={how}"));
            rest(here(Duration::from_millis(self.random.below(60))));
        }
        self.tally.switches += 1;
        let counts = self.workspace.counters();
        let count = |name: &str| counts[name].as_u64().unwrap_or(0);
        self.tally.compressed_stored += count("compressed_stored");
        self.tally.compressed_used += count("compressed_used");
        Ok(())
    }

    /// Waits until the volume is in this state.
    fn becomes(&self, state: &str) -> bool {
        let became = wait_until(PATIENCE, || {
            rest(Duration::from_millis(20));
            self.workspace.state() == state
        });
        if !became {
            self.accuse(format!(
                "the volume is {}, and does not become {state}",
                self.workspace.state()
            ));
        }
        became
    }

    fn clear_error(&self, arguments: &[&str]) -> bool {
        let cleared = self.workspace.well(&[&["volume", "clear-error", "v"], arguments].concat());
        if let Err(error) = &cleared {
            self.accuse(format!("{error:#}"));
        }
        cleared.is_ok()
    }

    /// The backing fails until the volume has failed, and is then repaired.
    fn fail_and_mend(&mut self) -> Result<()> {
        let what = if self.random.one_in(2) { "fail write" } else { "fail flush" };
        self.backing.ask(what)?;
        self.ledger().note(what);
        let failed = self.becomes("failed");
        self.backing.ask("fail off")?;
        if failed && self.clear_error(&["--retry"]) {
            self.tally.retries += 1;
        }
        Ok(())
    }

    /// The backing fails permanently: its contents, with the rescue file applied, are the
    /// acknowledged ones.
    fn rescue(&mut self, daemon: &mut Daemon, clients: Clients) -> Result<()> {
        self.backing.ask("fail write")?;
        self.ledger().note("fail write");
        let failed = self.becomes("failed");
        self.shared.stop.store(true, Ordering::SeqCst);
        clients.join();
        let file = self.workspace.path("rescued");
        let name = file.to_str().context("a plain path")?.to_owned();
        // Saved data is still retained, and can be saved to the same file again.
        let saved = failed && self.clear_error(&["--rescue", &name]) && self.becomes("failed");
        let cleared = saved && self.clear_error(&["--rescue", &name, "--discard-dirty"]);
        self.backing.ask("fail off")?;
        if !cleared {
            return Ok(());
        }
        let (mut image, _) = self.dump("damaged")?;
        self.tally.rescued_bytes += apply(&mut image, &file)?;
        self.ledger().note("rescued");
        self.ledger().judge_image(&image);
        self.tally.rescues += 1;
        daemon.signal(Signal::TERM);
        let status = daemon.wait()?;
        if status != 0 {
            self.accuse(format!(
                "after a rescue the stop had status {status}: {}",
                daemon.messages()
            ));
        }
        let path = self.workspace.path("mended");
        fs::write(&path, &image)?;
        self.backing.ask(&format!("load {}", path.display()))?;
        fs::remove_file(path)?;
        self.ledger().all_durable();
        self.left = None;
        Ok(())
    }
}

/// Applies a rescue file to an image, according to its map, and removes both. Returns the number of
/// bytes.
fn apply(image: &mut [u8], file: &Path) -> Result<u64> {
    let rescued = fs::read(file)?;
    let mut bytes = 0;
    let map = PathBuf::from(format!("{}.map", file.display()));
    for range in ranges(&fs::read_to_string(&map)?)? {
        ensure!(range.end <= image.len(), "the map reaches beyond the image");
        bytes += range.len() as u64;
        image[range.clone()].copy_from_slice(&rescued[range]);
    }
    fs::remove_file(file)?;
    fs::remove_file(map)?;
    Ok(bytes)
}

/// Returns the rescued ranges in a mapfile of GNU ddrescue. Its first line that is no comment is
/// its status; lines of position, size and status follow; `+` means rescued.
fn ranges(map: &str) -> Result<Vec<std::ops::Range<usize>>> {
    let number = |word: &str| match word.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16),
        None => word.parse(),
    };
    let lines = map.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let mut ranges = Vec::new();
    for line in lines.skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [position, size, status] = words[..] else {
            anyhow::bail!("not a line of a mapfile: {line}");
        };
        if status == "+" {
            let position = number(position)?;
            ranges.push(position..position + number(size)?);
        }
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapfile_is_read() {
        let map = "# Mapfile\n0x0 + 1\n0x0 0x200 ?\n0x200 0x400 +\n0x600 0x200 ?\n0x800 512 +\n";
        assert_eq!(ranges(map).expect("a map"), [0x200..0x600, 0x800..0xa00]);
        assert!(ranges("0x0 + 1\nnonsense").is_err());
    }
}
