//! The steps of `cargo xtask test` and `cargo xtask nightly`, as data.

/// One thing that must pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Short description of the check.
    pub(crate) what: &'static str,
    /// Arguments of cargo for the check. `{date}` is the day's number, see [`Step::arguments`].
    arguments: &'static str,
}

impl Step {
    /// Returns the arguments of cargo, for this number of days since 1970-01-01.
    pub(crate) fn arguments(&self, day: u64) -> String {
        self.arguments.replace("{date}", &day.to_string())
    }
}

/// Steps for each change, in order: the quickest to fail first.
///
/// The crates with the laboratory's feature are tested with it, separately from the others: those
/// use the engine as in the product, and so does the `overdrive` that their tests start. Most tests
/// of the daemon wait for processes, so four of them run at a time, also on two processors, and
/// three programs. Examples are built by the lints only. The second lints also select two packages
/// that change nothing in the command, but have the crates below it checked with the features of
/// the first lints, which are then not checked again. The steps after those tests use the
/// programs that they have built (`--as-tested`). The kills do so too: an optimized program takes
/// eight minutes of a processor to build, and then answers a third more requests and is killed as
/// often.
pub(crate) const CHANGE: [Step; 10] = [
    Step { what: "the format of the source", arguments: "fmt --all --check" },
    Step { what: "the lints", arguments: "clippy --workspace --all-targets -- -D warnings" },
    Step {
        what: "the lints of the command without what may be left out",
        arguments: "clippy --package overdrive --package xtask --package overdrive-python \
                    --no-default-features -- -D warnings",
    },
    Step {
        what: "the house rules",
        arguments: "test --package xtask --bins --test house --no-fail-fast -- --show-output",
    },
    Step {
        what: "the tests of the other crates, as in the product, and the daemon's planted bugs",
        arguments: "xtask parallel -- -- --show-output --test-threads 4",
    },
    Step { what: "the Python package", arguments: "xtask python --if-possible --as-tested" },
    Step {
        what: "the daemon killed and cut off its power, 30 seconds",
        arguments: "xtask kills --as-tested --seconds 30 --dirty-bytes default,1M,128K \
                    --compress off,lz4,zstd --memory-mib 8 --if-possible",
    },
    Step { what: "the manual, and its links", arguments: "xtask book --if-possible" },
    Step {
        what: "a guest with another kernel boots",
        arguments: "test --package xtask --test guest --no-fail-fast -- --ignored --show-output",
    },
    Step {
        what: "block devices by ublk and by the kernel's NBD client, in a guest",
        arguments: "xtask guest --if-possible --timeout-seconds 300 --memory-mib 3072 --module nbd \
                    --module ublk_drv --test overdrive:serve --as-tested \
                    -- devices::routes::ublk_is_a devices::routes::nbd_is_a --test-threads 1 \
                    --show-output",
    },
];

/// Steps for each change that run beside the others, in order: they need little but processors.
/// Their work is counted, not timed, so it is the same beside any load. The tests of the engine's
/// crates are the last: they are built in the same directory as the tests of the others, and by
/// then those are built. They fill the time in which the last tests of the daemon and the guests
/// wait.
pub(crate) const BESIDE: [Step; 5] = [
    Step { what: "the policies and libcachesim, miss for miss", arguments: "xtask policies" },
    Step { what: "the crash laboratory", arguments: "xtask crash --histories 1300" },
    Step { what: "every planted bug is found", arguments: "xtask crash --bugs --known" },
    Step { what: "lanes on several threads, explored", arguments: "xtask explore" },
    Step {
        what: "the tests of the engine's crates, with the laboratory's feature",
        arguments: "xtask parallel --jobs 2 --package crash --package cache --package layers \
                    --package nbd --package pool -- --show-output",
    },
];

/// Steps for each night: too long for each change. The parameters change each day, and stay the
/// same all day.
pub(crate) const NIGHT: [Step; 23] = [
    Step {
        what: "the lints of the explorer, which is empty without its feature",
        arguments: "clippy --package explore --features explore --all-targets -- -D warnings",
    },
    Step {
        what: "the lints of the command alone, without what may be left out",
        arguments: "clippy --package overdrive --no-default-features -- -D warnings",
    },
    Step {
        what: "the tests of the documentation, also those that the other steps cannot see",
        arguments: "test --workspace --doc",
    },
    Step { what: "the former program and this one", arguments: "xtask former" },
    Step {
        what: "the policies and libcachesim over other traces, miss for miss",
        arguments: "xtask policies --seed {date}",
    },
    Step {
        what: "the modelled drives' longer measurements",
        arguments: "run --release --package suites --example validate -- --strict",
    },
    Step { what: "the reviews in the manual, written again", arguments: "xtask reviews" },
    Step {
        what: "the Python package: a release, types, the notebook, the speed",
        arguments: "xtask python --full --if-possible",
    },
    Step { what: "the pages in a browser", arguments: "xtask pages --if-possible" },
    Step {
        what: "the crash laboratory, an hour",
        arguments: "xtask crash --seconds 3600 --base {date}",
    },
    Step {
        what: "the crash laboratory over the link to a server, half an hour",
        arguments: "xtask crash --link --seconds 1800 --base {date}",
    },
    Step {
        what: "the crash laboratory with Zstandard, ten minutes",
        arguments: "run --quiet --profile laboratory --package crash --bin crash-laboratory \
                    --features zstd -- --seconds 600 --base {date}",
    },
    Step {
        what: "every planted bug is found, from another seed each day",
        arguments: "xtask crash --bugs --base {date}",
    },
    Step {
        what: "lanes on several threads, explored for longer",
        arguments: "xtask explore --times 200 --seed {date}",
    },
    Step {
        what: "the daemon killed and cut off its power, an hour",
        arguments: "xtask kills --seconds 3600 --seed {date} --dirty-bytes default,1M,128K \
                    --compress off,lz4,zstd,auto --memory-mib 8 --if-possible",
    },
    Step {
        what: "the daemon killed and cut off its power, by the independent checker, half an hour",
        arguments: "xtask check --seconds 1800 --seed {date} --if-possible",
    },
    Step {
        what: "the daemon killed and cut off its power on another kernel, half an hour",
        arguments: "xtask guest --if-possible --timeout-seconds 3000 --build killtest --build overdrive \
                    -- killtest --seconds 1800 --seed {date} --dirty-bytes default,1M,128K --slower 10",
    },
    Step {
        what: "block devices by ways that this machine's kernel may lack, on another kernel",
        arguments: "xtask guest --if-possible --timeout-seconds 1800 --memory-mib 3072 \
                    --module nbd --module ublk_drv --test overdrive:serve -- devices::routes --test-threads 1 --show-output",
    },
    Step {
        what: "health and erasing of an NVMe drive and a SCSI disk, on another kernel",
        arguments: "xtask guest --if-possible --timeout-seconds 900 --module nvme --nvme-mib 64 \
                    --module sd_mod --module scsi_debug+dev_size_mb=64+lbpu=1+lbprz=1 \
                    --module target_core_user --module tcm_loop --test overdrive:drive_guest \
                    -- --ignored --test-threads 1 --show-output",
    },
    Step {
        what: "users of devices below a device mapper, on another kernel",
        arguments: "xtask guest --if-possible --timeout-seconds 600 --module loop --module dm_mod \
                    --test ring:devices -- --test-threads 1 --show-output",
    },
    Step {
        what: "volumes under a whole Debian, with reboots and a power cut",
        arguments: "xtask system --if-possible",
    },
    Step { what: "the real clients, an hour", arguments: "xtask soak --hours 1 --seed {date}" },
    Step { what: "the mutants", arguments: "xtask mutants --seconds 3" },
];

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_step_names_the_day_and_has_no_empty_argument() {
        let crash = NIGHT.iter().find(|step| step.arguments.contains("--base"));
        let arguments = crash.expect("the laboratory is a step").arguments(20_000);
        assert_eq!(arguments, "xtask crash --seconds 3600 --base 20000");
        for step in CHANGE.iter().chain(&BESIDE).chain(&NIGHT) {
            let arguments = step.arguments(1);
            assert!(arguments.split(' ').all(|argument| !argument.is_empty()), "{arguments}");
            assert!(!arguments.contains(['{', '}']), "{arguments}");
        }
    }

    #[test]
    fn the_steps_of_this_program_are_commands_that_it_has() {
        for step in CHANGE.iter().chain(&BESIDE).chain(&NIGHT) {
            let arguments = step.arguments(1);
            if arguments.starts_with("xtask ") {
                let parsed = crate::Cli::try_parse_from(arguments.split(' '));
                assert!(parsed.is_ok(), "{arguments}: {:?}", parsed.err());
            }
        }
        for step in &CHANGE {
            // A first `--` ends the options of `parallel` itself.
            let arguments = step.arguments(1);
            assert!(!arguments.contains("parallel -- --show"), "{arguments}");
        }
        let kills = "xtask kills --as-tested --seconds 30 --if-possible".split(' ');
        let parsed = crate::Cli::try_parse_from(kills).expect("a command");
        let crate::Command::Kills(options) = parsed.command else { panic!("another command") };
        assert_eq!(options.passed.arguments, ["--seconds", "30", "--if-possible"]);
        assert!(options.as_tested);
    }
}
