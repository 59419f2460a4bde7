//! The engine, served by several threads.

use block::{Durability, WriteMode};
use explore::{Plan, explore, is_found, run};
use lane::planted::Race;

const PLAN: Plan = Plan {
    lanes: 2,
    clients: 1,
    requests: 6,
    shards: 1,
    dirty_blocks_max: 4,
    write: WriteMode::BackNow,
    durability: Durability::Flush,
    workers: 1,
    changes: true,
    once: false,
    answers_now: false,
};

fn two_lanes() {
    run(PLAN);
}

fn early() {
    run(Plan { requests: 12, changes: false, ..PLAN });
}

fn crowded() {
    run(Plan { requests: 24, dirty_blocks_max: 6, changes: false, shards: 2, ..PLAN });
}

fn filled_once() {
    run(Plan { clients: 2, dirty_blocks_max: 3, changes: false, shards: 2, once: true, ..PLAN });
}

fn two_shards() {
    run(Plan { shards: 2, workers: 2, clients: 2, ..PLAN });
}

fn three_lanes() {
    run(Plan { lanes: 3, requests: 4, shards: 2, ..PLAN });
}

fn ordered() {
    run(Plan { durability: Durability::Ordered, shards: 2, ..PLAN });
}

fn direct() {
    run(Plan { clients: 2, requests: 12, answers_now: true, changes: false, ..PLAN });
}

#[test]
fn two_lanes_keep_what_is_promised() {
    explore(100, two_lanes);
}

#[test]
fn what_should_be_written_out_early_is() {
    explore(100, early);
}

#[test]
fn two_lanes_over_two_shards_keep_what_is_promised() {
    explore(100, two_shards);
}

#[test]
fn a_crowded_buffer_keeps_what_is_promised() {
    explore(100, crowded);
}

#[test]
fn three_lanes_keep_what_is_promised() {
    explore(100, three_lanes);
}

#[test]
fn two_lanes_keep_an_order() {
    explore(100, ordered);
}

#[test]
fn a_worker_that_sleeps_unasked_is_noticed() {
    assert!(is_found(Race::SleepUnasked, || explore(300, early)));
}

#[test]
fn a_sum_that_is_stored_is_noticed() {
    assert!(is_found(Race::StoreSum, || explore(100, crowded)));
}

#[test]
fn two_shards_never_take_the_same_room() {
    explore(300, filled_once);
}

/// About one order in 1,000 shows it. The search ends at the first one.
#[test]
fn room_that_is_taken_unclaimed_is_noticed() {
    assert!(is_found(Race::TakeUnclaimed, || explore(8000, filled_once)));
}

fn direct_at_times() {
    run(Plan { clients: 2, answers_now: true, ..PLAN });
}

#[test]
fn writes_that_bypass_the_whole_cache_keep_what_is_promised() {
    explore(100, direct);
    explore(100, direct_at_times);
}

#[test]
fn a_write_that_is_sent_after_its_section_is_noticed() {
    assert!(is_found(Race::SendAfterSection, || explore(1000, direct)));
}
