//! Options of the command line for a volume: for the one that it names, or for all in a config
//! file. Options that are not given leave the volume's own values.

use crate::settings::Said;
use block::{DelaySpec, FaultsSpec};
use daemon::config::ConfigVolume;
use daemon::units::{self as sizes, WaitTime};

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    cache: Said<false>,

    /// Start no holder: if this process is killed, writes that were acknowledged but not flushed
    /// are lost.
    #[arg(long)]
    no_holder: bool,

    /// How long requests to the volume's block device or mounted file wait for a new daemon after
    /// one has ended, before they fail: a time, or 'forever' [default: 30s].
    #[arg(long, value_name = "TIME|forever", value_parser = sizes::wait_time)]
    wait_time: Option<WaitTime>,

    /// Serve the bytes of an image format (qcow2, VMDK, ...) unchanged, or a file system of several
    /// hosts on the only host that uses it. Always set for volumes of a configuration file.
    #[arg(long)]
    raw: bool,

    /// Refuse changes.
    #[arg(long)]
    read_only: bool,

    /// Use the host's page cache below the volume instead of direct I/O.
    #[arg(long)]
    buffered: bool,

    /// Slow the backing down, for tests: read=500us,write=500us,flush=500us,servers=4,bandwidth=0.
    #[arg(long, value_name = "LIST", value_parser = sizes::delay)]
    delay: Option<DelaySpec>,

    /// Make requests to the backing fail, for tests: write=N,flush=N,read=N (the first that
    /// fails),count=N,errno=N,hang=TIME (no answer for that time instead of an error).
    #[arg(long, value_name = "LIST", value_parser = sizes::faults)]
    faults: Option<FaultsSpec>,
}

impl Options {
    /// Returns the keys of a config file that were given as options.
    pub(super) fn replaced(&self) -> Vec<&'static str> {
        let given = [
            ("wait_time", self.wait_time.is_some()),
            ("read_only", self.read_only),
            ("buffered", self.buffered),
            ("delay", self.delay.is_some()),
            ("faults", self.faults.is_some()),
            ("holder", self.no_holder),
        ];
        let given = given.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key);
        given.chain(self.cache.keys()).collect()
    }

    /// Replaces the volume's values by the options that were given.
    pub(crate) fn apply(&self, volume: &mut ConfigVolume) {
        self.cache.apply(&mut volume.cache);
        volume.delay = self.delay.clone().or(volume.delay.take());
        volume.faults = self.faults.clone().or(volume.faults.take());
        volume.wait_time = self.wait_time.unwrap_or(volume.wait_time);
        volume.raw |= self.raw;
        volume.read_only |= self.read_only;
        volume.buffered |= self.buffered;
        volume.holder &= !self.no_holder;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{LinkDown, Size, WriteMode};
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    /// Returns a volume whose values in the file are all set, and all differ from `SAID`.
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

    /// Each option with a value, and all its effects.
    const SAID: [(&[&str], Change); 24] = [
        (&["--memory", "64M"], |volume| volume.cache.memory = Size(64 << 20)),
        (&["--policy", "sieve"], |volume| volume.cache.policy = block::Policy::Sieve),
        (&["--write", "through"], |volume| volume.cache.write = WriteMode::Through),
        (&["--durability", "ordered"], |volume| {
            volume.cache.durability = block::Durability::Ordered;
        }),
        (&["--dirty-bytes", "512K"], |volume| volume.cache.dirty_bytes = Some(Size(512 << 10))),
        (&["--dirty-age", "7s"], |volume| volume.cache.dirty_age_ms = 7_000),
        (&["--flush-target", "8s"], |volume| volume.cache.flush_target_ms = 8_000),
        (&["--retry-time", "9s"], |volume| volume.cache.retry_time_ms = 9_000),
        (&["--link-down", "wait"], |volume| volume.cache.link_down = LinkDown::Wait),
        (&["--absorb-bytes-max", "64K"], |volume| volume.cache.absorb_bytes_max = Size(64 << 10)),
        (&["--readahead", "off"], |volume| volume.cache.readahead = false),
        (&["--warm", "off"], |volume| volume.cache.warm = block::Warm::Off),
        (&["--warm-save", "11s"], |volume| volume.cache.warm_save_ms = 11_000),
        (&["--compress", "lz4"], |volume| volume.cache.compress = block::Compress::Lz4),
        (&["--files", "auto"], |volume| volume.cache.files = block::Files::Auto),
        (&["--rules", "metadata=4"], |volume| {
            volume.cache.rules = "metadata=4".parse().expect("a rule");
        }),
        (&["--guard", "off"], |volume| volume.cache.guard = false),
        (&["--no-holder"], |volume| volume.holder = false),
        (&["--wait-time", "forever"], |volume| volume.wait_time = WaitTime(None)),
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
