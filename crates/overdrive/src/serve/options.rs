//! What the command line says of a volume: of the one that it names, or of all that a config file has.
//! What it does not say stays as it is there.

use block::{DelaySpec, FaultsSpec, Size, WriteMode};
use clap::ValueEnum;
use daemon::config::ConfigVolume;
use daemon::units as sizes;

#[derive(clap::Args)]
pub(super) struct Options {
    /// Memory for cached blocks (4K = 4KiB = 4096, 4KB = 4000); 0: no cache layer at all [default: 1G].
    #[arg(long, value_parser = sizes::size)]
    memory: Option<Size>,

    /// What happens to writes [default: back].
    #[arg(long, value_enum)]
    write: Option<Write>,

    /// What a flush means [default: flush].
    #[arg(long, value_enum)]
    durability: Option<Durability>,

    /// The most dirty data there may ever be [default: a quarter of the memory].
    #[arg(long, value_name = "SIZE", value_parser = sizes::size)]
    dirty_bytes: Option<Size>,

    /// How long dirty data may wait [default: 5s].
    #[arg(long, value_name = "TIME", value_parser = sizes::time_ms)]
    dirty_age: Option<u64>,

    /// How long writing out all dirty data may take, as predicted from what was measured; 0: no
    /// limit [default: 500ms].
    #[arg(long, value_name = "TIME", value_parser = sizes::time_ms)]
    flush_target: Option<u64>,

    /// How long errors of the backing are retried before the volume fails [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = sizes::time_ms)]
    retry_time: Option<u64>,

    /// Let the cache step aside by itself while it costs more than it brings, as when processors are
    /// busy; 'volume stats' tells why [default: on].
    #[arg(long, value_name = "on|off", value_parser = sizes::on_off, action = clap::ArgAction::Set)]
    guard: Option<bool>,

    /// Start no holder: if this process is killed, what was acknowledged but not flushed is lost.
    #[arg(long)]
    no_holder: bool,

    /// Serve an image format (qcow2, VMDK, ...) byte by byte all the same.
    #[arg(long)]
    raw: bool,

    /// Refuse changes.
    #[arg(long)]
    read_only: bool,

    /// Use the host's page cache under the volume instead of direct I/O.
    #[arg(long)]
    buffered: bool,

    /// Make the backing slower, for tests: read=500us,write=500us,flush=500us,servers=4,bandwidth=0.
    #[arg(long, value_name = "LIST", value_parser = sizes::delay)]
    delay: Option<DelaySpec>,

    /// Make the backing fail, for tests: write=N,flush=N,read=N (the first that fails),count=N,errno=N,
    /// hang=TIME (not an error, but no answer for so long).
    #[arg(long, value_name = "LIST", value_parser = sizes::faults)]
    faults: Option<FaultsSpec>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Write {
    /// Absorbed in memory, once a client has shown by a flush that it knows what that means.
    Back,
    /// Absorbed in memory from the first write on.
    BackNow,
    /// Written to the backing, and kept for reading.
    Through,
    /// Nothing is cached, neither reads nor writes.
    None,
}

impl From<Write> for WriteMode {
    fn from(write: Write) -> WriteMode {
        match write {
            Write::Back => WriteMode::Back,
            Write::BackNow => WriteMode::BackNow,
            Write::Through => WriteMode::Through,
            Write::None => WriteMode::None,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Durability {
    /// A completed flush or FUA write is on the backing, and the backing was flushed.
    Flush,
    /// Flushes and FUA writes are answered at once. A power cut may take the newest of them, up to
    /// dirty-age, but shows nothing out of order: what was flushed earlier is there first.
    Ordered,
    /// Flushes are ignored. For volumes that are thrown away after a power cut.
    Scratch,
}

impl From<Durability> for block::Durability {
    fn from(durability: Durability) -> block::Durability {
        match durability {
            Durability::Flush => block::Durability::Flush,
            Durability::Ordered => block::Durability::Ordered,
            Durability::Scratch => block::Durability::Scratch,
        }
    }
}

/// Puts in what is said.
fn put<T>(place: &mut T, said: Option<impl Into<T>>) {
    if let Some(said) = said {
        *place = said.into();
    }
}

impl Options {
    /// Puts what is said here in the place of what the volume has.
    pub(super) fn apply(&self, volume: &mut ConfigVolume) {
        let cache = &mut volume.cache;
        put(&mut cache.memory, self.memory);
        put(&mut cache.write, self.write);
        put(&mut cache.durability, self.durability);
        put(&mut cache.dirty_age_ms, self.dirty_age);
        put(&mut cache.flush_target_ms, self.flush_target);
        put(&mut cache.retry_time_ms, self.retry_time);
        put(&mut cache.guard, self.guard);
        cache.dirty_bytes = self.dirty_bytes.or(cache.dirty_bytes);
        volume.delay = self.delay.clone().or(volume.delay.take());
        volume.faults = self.faults.clone().or(volume.faults.take());
        volume.raw |= self.raw;
        volume.read_only |= self.read_only;
        volume.buffered |= self.buffered;
        volume.holder &= !self.no_holder;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    /// What a file says of a volume: everything, and otherwise than `SAID`.
    fn filed() -> ConfigVolume {
        let mut volume = ConfigVolume::new("db", "/dev/sdb");
        volume.cache.memory = Size(2 << 20);
        volume.cache.dirty_bytes = Some(Size(1 << 20));
        volume.cache.dirty_age_ms = 2_000;
        volume.delay = sizes::delay("read=1ms").ok();
        volume.faults = sizes::faults("read=1").ok();
        volume
    }

    type Change = fn(&mut ConfigVolume);

    /// Each option with a value, and all that it changes.
    const SAID: [(&[&str], Change); 14] = [
        (&["--memory", "64M"], |volume| volume.cache.memory = Size(64 << 20)),
        (&["--write", "through"], |volume| volume.cache.write = WriteMode::Through),
        (&["--durability", "ordered"], |volume| {
            volume.cache.durability = block::Durability::Ordered;
        }),
        (&["--dirty-bytes", "512K"], |volume| volume.cache.dirty_bytes = Some(Size(512 << 10))),
        (&["--dirty-age", "7s"], |volume| volume.cache.dirty_age_ms = 7_000),
        (&["--flush-target", "8s"], |volume| volume.cache.flush_target_ms = 8_000),
        (&["--retry-time", "9s"], |volume| volume.cache.retry_time_ms = 9_000),
        (&["--guard", "off"], |volume| volume.cache.guard = false),
        (&["--no-holder"], |volume| volume.holder = false),
        (&["--raw"], |volume| volume.raw = true),
        (&["--read-only"], |volume| volume.read_only = true),
        (&["--buffered"], |volume| volume.buffered = true),
        (&["--delay", "write=2ms"], |volume| volume.delay = sizes::delay("write=2ms").ok()),
        (&["--faults", "write=2"], |volume| volume.faults = sizes::faults("write=2").ok()),
    ];

    fn applied(words: &[&str]) -> ConfigVolume {
        let line =
            Line::try_parse_from([&["serve"], words].concat()).unwrap_or_else(|e| panic!("{e}"));
        let mut volume = filed();
        line.options.apply(&mut volume);
        volume
    }

    #[test]
    fn each_option_changes_what_it_says_and_nothing_else() {
        assert_eq!(applied(&[]), filed(), "what is not said stays");
        for (words, change) in SAID {
            let mut expected = filed();
            change(&mut expected);
            assert_ne!(expected, filed(), "{words:?}");
            assert_eq!(applied(words), expected, "{words:?}");
        }
    }

    #[test]
    fn no_option_is_left_out() {
        let command = Line::command();
        let all = command.get_arguments().filter_map(|one| one.get_long());
        let mut all: Vec<String> =
            all.filter(|long| *long != "help").map(|long| format!("--{long}")).collect();
        let mut tried: Vec<&str> = SAID.iter().map(|(words, _)| words[0]).collect();
        all.sort();
        tried.sort_unstable();
        assert_eq!(all, tried);
    }
}
