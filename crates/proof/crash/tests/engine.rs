//! The engine in the laboratory, as a short test: `cargo xtask crash` runs for any time, optimized,
//! and `cargo xtask crash --bugs` tests every planted bug.

use block::Compress;
use crash::{HuntOptions, Scale, Setup, history, honest, honest_over_link, hunt, seed_of};

fn scale_of(number: u64) -> Scale {
    if number.is_multiple_of(4) { Scale::Exhaustive } else { Scale::Swarm }
}

#[test]
fn the_engine_keeps_every_promise() {
    let engine = honest();
    // The next test judges eight more.
    for number in 0..16 {
        let outcome = history(engine.as_ref(), seed_of(1, number), scale_of(number), false);
        if let Some(failure) = outcome.failure {
            panic!("{}\n{}", failure.finding, failure.reproduction(None));
        }
    }
}

#[test]
fn the_engine_gives_the_same_trace_for_the_same_seed() {
    let engine = honest();
    for number in 0..8 {
        let (seed, scale) = (seed_of(4, number), scale_of(number));
        let [one, two] = [(); 2].map(|()| history(engine.as_ref(), seed, scale, false));
        assert_eq!(one.trace, two.trace, "seed {seed:#x}");
        assert_eq!(one.tally, two.tally, "seed {seed:#x}");
        if let Some(failure) = one.failure {
            panic!("{}\n{}", failure.finding, failure.reproduction(None));
        }
    }
}

/// Older blocks that were durable, and held in part, were written over newer ones after a takeover.
#[test]
fn a_durable_epoch_that_is_not_noted_tears_a_block() {
    let seed = 0xbfbd_e36e_00e5_cec6;
    let bug = crash::by_name("ForgetDurable").expect("a name from the list");
    let found = history(bug.as_ref(), seed, Scale::Swarm, false).failure;
    assert!(found.is_some_and(|failure| failure.finding.to_string().contains("is torn")));
    assert!(history(honest().as_ref(), seed, Scale::Swarm, false).failure.is_none());
}

/// A change waited in the layer for parts of blocks while a stall began and ended: it reached the
/// disk after its client had an error, and after an operator had discarded everything.
#[test]
fn a_change_that_a_stall_has_left_behind_reaches_no_disk() {
    let seed = 0xc511_7d27_0313_f0fb;
    assert!(history(honest().as_ref(), seed, Scale::Swarm, false).failure.is_none());
}

/// A page of compressed blocks was filled and had no live one: its slot was free only after the
/// next change of the tier.
#[test]
fn a_page_without_a_live_block_is_free_at_once() {
    let seed = 0x6fc0_6fe7_b836_45cd;
    assert!(history(honest().as_ref(), seed, Scale::Swarm, false).failure.is_none());
}

/// An operator discarded dirty data that a change of a part of a block had read and wrote again:
/// the oracle took the disk's version, which the discard had uncovered, for a certain one.
#[test]
fn discarded_data_may_come_back_with_a_change_that_has_read_it() {
    let seed = 0x2901_4636_07cb_da86;
    assert!(history(honest().as_ref(), seed, Scale::Swarm, false).failure.is_none());
}

/// A read showed a sector of an unanswered write-through beside newer sectors from memory, and the
/// recovery after a kill wrote the older sector again.
#[test]
fn a_sector_that_a_read_has_shown_outlives_a_kill() {
    let seed = 0x9b41_8121_0a1b_1342;
    assert!(history(honest().as_ref(), seed, Scale::Swarm, false).failure.is_none());
}

/// The flush that had to report a doubt failed by a stall of the backing: its client has an error.
#[test]
fn a_doubt_is_reported_by_any_error_of_a_flush() {
    let seed = 0xaf24_6d9c_6c70_7346;
    assert!(history(honest().as_ref(), seed, Scale::Swarm, false).failure.is_none());
}

/// A link whose losses ended at once failed the volume under `wait`; so did the loss of a change
/// that memory held, after an FUA write that its own flush had made durable.
#[test]
fn no_volume_fails_that_waits_for_its_link_and_holds_what_was_lost() {
    // In the third one a flush loses a write-through while the next flush is already in flight. In
    // the last one connections are made again in the moment in which their end is noticed.
    let losses = [0xb7c1_0680_80f7_7c07, 0xd4b4_2036_169f_32f3, 0xe01e_f752_6c4a_d06b];
    for seed in losses.into_iter().chain([0xc9b5_c263_28bf_3338]) {
        let failure = history(honest_over_link().as_ref(), seed, Scale::Swarm, false).failure;
        assert!(failure.is_none(), "seed {seed:#x}");
    }
    let bug = crash::by_name("CountAcrossReturn").expect("a name from the list");
    let seed = 0x91c8_1cbd_5603_d9c0;
    assert!(history(bug.as_ref(), seed, Scale::Swarm, false).failure.is_some());
}

/// A server had lost a change without an answer, or with one that a report excuses, or had executed
/// a killed process's change after a read. Memory kept such reads once, and showed other contents
/// than the disk.
#[test]
fn a_server_may_lose_changes_that_were_not_promised() {
    // The operator has cleared the error, and a good flush had followed the one that failed.
    let cleared = [0x20d6_ccb4_6a63_b013];
    // The next process promised an order, and no flush of it was answered yet.
    let unordered = [0x72d4_3586_5af1_8882];
    let unanswered = [0x0fe9_7a73_154a_2ff3, 0x919d_e0ca_b356_552c, 0x0d74_7ed1_5585_ab2e];
    let excused = [0xfa4a_ddd6_c8c6_87a8, 0x2274_1bcf_5b62_6e6c, 0xd38f_49d0_5452_502f];
    let all = unanswered.into_iter().chain(excused).chain(cleared).chain(unordered);
    for seed in all {
        let failure = history(honest_over_link().as_ref(), seed, Scale::Swarm, false).failure;
        assert!(failure.is_none(), "seed {seed:#x}");
    }
    let bug = crash::by_name("KeepUnanswered").expect("a name from the list");
    let failure = history(bug.as_ref(), 0x3a5a_5040_0d87_3ffa, Scale::Exhaustive, false).failure;
    assert!(failure.is_some());
}

/// A session had ended with an answered change that no flush covered. The server still had it, a
/// read kept it, and a restart lost it. (`KeepAfterLoss` is found by `tests/export`.)
#[test]
fn nothing_is_kept_that_a_server_may_lose_after_a_reported_loss() {
    let seed = 0xfbe7_253f_20c1_9f76;
    assert!(history(honest_over_link().as_ref(), seed, Scale::Swarm, false).failure.is_none());
}

/// The process was stopped with a request in flight before its link was cut, and later reads of
/// several regions met a disk that hung: no volume fails, and no answer from memory is owed.
#[test]
fn time_in_which_a_process_was_stopped_does_not_count() {
    for seed in [0x9576_6061_3b19_ac06, 0x14d7_3c71_bfc2_83d7] {
        let failure = history(honest_over_link().as_ref(), seed, Scale::Swarm, false).failure;
        assert!(failure.is_none(), "seed {seed:#x}");
    }
}

/// With `serve-clean`, memory had room for a change, and the link was down.
#[test]
fn no_change_succeeds_that_the_policy_refuses() {
    let seed = 0x36fc_d4b0_8e0e_c55f;
    assert!(history(honest_over_link().as_ref(), seed, Scale::Swarm, false).failure.is_none());
    let bug = crash::by_name("AbsorbWithoutLink").expect("a name from the list");
    assert!(history(bug.as_ref(), seed, Scale::Swarm, false).failure.is_some());
}

/// Bugs that show within a few histories; the others need the optimized laboratory.
#[test]
fn some_planted_bugs_are_found() {
    let quick = ["AckBeforeFlush", "WrongOffset", "SkipChecksum", "ReleaseRecovered", "SkipFence"];
    let over_link = ["StallLostLink", "ResendOtherBytes"];
    let options = HuntOptions { time: None, first: 0, histories_max: 2_000, threads: 2, base: 1 };
    for name in quick.iter().chain(&over_link) {
        let bug = crash::by_name(name).expect("a name from the list");
        let found = hunt(bug.as_ref(), options, |_| ());
        assert!(found.failure.is_some(), "{name} was not found");
    }
}

/// Compressed blocks are found after kills, and judged where they are read.
#[test]
fn compressed_blocks_outlive_kills() {
    let engine = honest();
    let (mut found, mut read) = (0, 0);
    for number in 0..64 {
        let seed = seed_of(6, number);
        if Setup::new(seed, Scale::Swarm).engine.compress == Compress::Off {
            continue;
        }
        let outcome = history(engine.as_ref(), seed, Scale::Swarm, false);
        if let Some(failure) = outcome.failure {
            panic!("{}\n{}", failure.finding, failure.reproduction(None));
        }
        found += outcome.tally.objects_found;
        read += outcome.tally.objects_read;
    }
    assert!(found > 100 && read > 100, "{found} were found, and {read} read");
}
