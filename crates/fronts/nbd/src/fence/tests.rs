use super::*;

const EXPORT: Export = Export { sectors: 1 << 20, abilities: [3, 4] };

fn memory() -> Arc<Memory> {
    Arc::new(Memory::heap(TABLE_BYTES))
}

fn fence() -> Fence {
    Fence::new(&memory(), EXPORT)
}

fn sent(begin: Begin) -> Sent {
    match begin {
        Begin::Sent(sent) => sent,
        other => panic!("{other:?}"),
    }
}

fn at(first: u64) -> Extent {
    Extent::new(first, 8)
}

#[test]
fn only_the_same_request_is_sent_again_until_its_old_copy_has_settled() {
    let mut fence = fence();
    let (one, two) = (fence.request(), fence.request());
    let _ = sent(fence.begin(at(0), false, one, 5));
    fence.changes_end(10);
    let end = 10 + SETTLE_NS;
    assert_eq!(fence.begin(Extent::new(7, 100), false, two, 11), Begin::Held(end));
    let beside = sent(fence.begin(at(8), false, two, 11));
    let again = sent(fence.begin(at(0), false, one, 11));
    fence.answered(again);
    fence.answered(beside);
    assert_eq!(fence.begin(at(0), false, two, 12), Begin::Held(end), "its old copy may come");
    assert_eq!((fence.settled_at(end - 1), fence.fences(end - 1)), (Some(end), 1));
    let _ = sent(fence.begin(at(0), false, two, end));
    assert_eq!((fence.settled_at(end), fence.fences(end), fence.sent()), (None, 0, 1));
}

#[test]
fn an_answer_that_was_received_before_the_end_ends_the_fence() {
    let mut fence = fence();
    let (one, two) = (fence.request(), fence.request());
    let copy = sent(fence.begin(at(0), false, one, 0));
    fence.changes_end(1);
    fence.answered(copy);
    let later = sent(fence.begin(at(0), false, two, 2));
    // The first copy's slot is used again: its answer is over.
    fence.answered(copy);
    assert_eq!(fence.sent(), 1);
    fence.answered(later);
    assert_eq!(fence.sent(), 0);
}

#[test]
fn a_link_that_flaps_needs_one_fence_a_request() {
    let mut fence = fence();
    let one = fence.request();
    for second in 0..10 * SLOTS as u64 {
        let _ = sent(fence.begin(at(0), false, one, second));
        fence.changes_end(second);
    }
    assert_eq!((fence.fenced.len(), fence.sent()), (1, 0));
}

/// Fills a table with fences, one connection after another, which end at these times.
fn fill(fence: &mut Fence, end_ns: impl Fn(u64) -> u64) {
    for number in 0..SLOTS - SLOTS_SPARE {
        if fence.sent() == SENT_MAX {
            let request = fence.request();
            assert_eq!(fence.begin(at(1 << 19), false, request, 0), Begin::Full);
            fence.changes_end(end_ns((number / SENT_MAX) as u64 - 1));
        }
        let request = fence.request();
        let _ = sent(fence.begin(at(8 * number as u64), false, request, 0));
    }
    fence.changes_end(end_ns((SLOTS / SENT_MAX) as u64 - 1));
}

#[test]
fn a_full_table_holds_changes_until_the_first_fence_ends() {
    let mut fence = fence();
    fill(&mut fence, |round| round);
    let request = fence.request();
    let free = at(1 << 19);
    assert_eq!(fence.begin(free, false, request, 99), Begin::Held(SETTLE_NS));
    let _ = sent(fence.begin(free, false, request, SETTLE_NS));
}

#[test]
fn answers_that_cannot_be_read_count_as_none() {
    let memory = memory();
    let mut fence = Fence::new(&memory, EXPORT);
    let requests = [(); 3].map(|()| fence.request());
    let durable = sent(fence.begin(at(0), true, requests[0], 0));
    fence.answered(durable);
    let _ = sent(fence.begin(at(8), false, requests[1], 0));
    let mut next = Fence::adopt(&memory, EXPORT, 0).expect("its own");
    next.abandon(5);
    assert!(!next.has_loss(), "all that was answered is durable");
    let end = 5 + SETTLE_NS;
    let request = next.request();
    assert_eq!(next.begin(at(8), false, request, 6), Begin::Held(end));
    let copy = sent(next.begin(at(0), false, request, 6));
    next.answered(copy);
    let mut third = Fence::adopt(&memory, EXPORT, 7).expect("its own");
    third.abandon(7);
    assert!(third.has_loss() && third.settled_at(7) == Some(end));
    third.note_reported();
    assert!(!third.has_loss() && third.flush_begins(0).is_ok());
}

#[test]
fn a_loss_fails_each_flush_that_is_under_way_or_the_next_one_and_no_more() {
    let mut fence = fence();
    let change = |fence: &mut Fence, is_durable| {
        let request = fence.request();
        let copy = sent(fence.begin(at(0), is_durable, request, 0));
        fence.answered(copy);
    };
    change(&mut fence, true);
    fence.session_ends(0);
    assert!(fence.flush_begins(0).is_ok(), "all was durable");
    change(&mut fence, false);
    fence.session_ends(0);
    assert_eq!(fence.flush_begins(0), Err(Lost));
    let [one, two] = [(); 2].map(|()| fence.flush_begins(0).expect("it was reported"));
    change(&mut fence, false);
    fence.session_ends(0);
    assert_eq!(fence.flush_ends(one, true), Err(Lost));
    assert_eq!(fence.flush_ends(two, false), Err(Lost));
    let mark = fence.flush_begins(0).expect("both have reported it");
    assert_eq!(fence.flush_ends(mark, true), Ok(()));
    change(&mut fence, false);
    let mark = fence.flush_begins(0).expect("nothing is lost");
    assert_eq!(fence.flush_ends(mark, true), Ok(()));
    fence.session_ends(0);
    assert!(fence.flush_begins(0).is_ok(), "the flush covers it");
}

#[test]
fn the_end_of_changes_alone_is_no_loss() {
    let mut fence = fence();
    let request = fence.request();
    let copy = sent(fence.begin(at(0), false, request, 0));
    fence.answered(copy);
    fence.changes_end(0);
    assert!(fence.has_unflushed());
    let mark = fence.flush_begins(0).expect("the anchor answers");
    assert_eq!(fence.flush_ends(mark, true), Ok(()));
    assert!(!fence.has_unflushed());
}

#[test]
fn an_answer_from_an_ended_session_is_a_loss() {
    let mut fence = fence();
    let request = fence.request();
    let copy = sent(fence.begin(at(0), false, request, 0));
    fence.session_ends(0);
    fence.answered(copy);
    assert_eq!(fence.flush_begins(0), Err(Lost));
}

#[test]
fn a_next_process_finds_unanswered_changes_fences_and_losses() {
    let memory = memory();
    let mut first = Fence::new(&memory, EXPORT);
    let requests: Vec<u64> = (0..3).map(|_| first.request()).collect();
    let _ = sent(first.begin(at(0), false, requests[0], 0));
    first.changes_end(7);
    let answered = sent(first.begin(at(8), false, requests[1], 8));
    let open = sent(first.begin(at(16), true, requests[2], 8));
    first.set_sockets(Sockets { changes: 5, anchor: 6 });
    first.answered(answered);
    let mut next = Fence::adopt(&memory, EXPORT, 9).expect("it is one");
    assert_eq!((next.sent(), next.has_unflushed()), (1, true));
    assert_eq!(next.sockets(), Sockets { changes: 5, anchor: 6 });
    let request = next.request();
    assert_eq!(next.begin(at(0), false, request, 9), Begin::Held(7 + SETTLE_NS));
    assert!(!next.answered_earlier(SLOTS) && !next.answered_earlier(answered.slot()));
    assert!(next.answered_earlier(open.slot()) && !next.answered_earlier(open.slot()));
    assert_eq!(next.sent(), 0);
    next.session_ends(10);
    assert_eq!(next.flush_begins(0), Err(Lost));
    let mut last = Fence::adopt(&memory, EXPORT, 9).expect("it is one");
    assert!(last.flush_begins(0).is_ok(), "it was reported");
}

#[test]
fn memory_that_is_no_table_of_the_export_is_refused() {
    let memory = memory();
    assert!(Fence::adopt(&memory, EXPORT, 0).is_none(), "it is empty");
    drop(Fence::new(&memory, EXPORT));
    assert!(Fence::adopt(&memory, EXPORT, 0).is_some());
    assert!(Fence::adopt(&memory, Export { sectors: 8, ..EXPORT }, 0).is_none());
    assert!(Fence::adopt(&memory, Export { abilities: [3, 5], ..EXPORT }, 0).is_none());
    let short = Arc::new(Memory::heap(TABLE_BYTES - 8));
    assert!(Fence::adopt(&short, EXPORT, 0).is_none());
    let is_refused = |word: usize, value: u64| {
        let place = memory.word(8 * word);
        let before = place.swap(value, std::sync::atomic::Ordering::SeqCst);
        let refused = Fence::adopt(&memory, EXPORT, 0).is_none();
        place.store(before, std::sync::atomic::Ordering::SeqCst);
        refused
    };
    assert!(is_refused(0, 1) && is_refused(7, 1) && is_refused(9, 1));
    assert!(is_refused(18, 1), "a change of no sectors");
    assert!(is_refused(18, u64::MAX) && !is_refused(16, u64::MAX), "the slot is free");
}

#[test]
fn a_fence_without_an_end_is_as_long_as_any_other() {
    let memory = memory();
    let mut fence = Fence::new(&memory, EXPORT);
    fence.hold_all(EXPORT.sectors, u64::MAX);
    let mut next = Fence::adopt(&memory, EXPORT, 5).expect("it is one");
    let request = next.request();
    assert_eq!(next.begin(at(1 << 19), false, request, 6), Begin::Held(5 + SETTLE_NS));
}

#[test]
fn no_bytes_make_the_reader_panic() {
    let mut random = lane::Random::new(7);
    for _ in 0..200 {
        let memory = memory();
        drop(Fence::new(&memory, EXPORT));
        for _ in 0..20 {
            let word = 4 + random.below(100) as usize;
            let value = random.next_u64() >> random.below(64);
            memory.word(8 * word).store(value, std::sync::atomic::Ordering::SeqCst);
        }
        if let Some(mut fence) = Fence::adopt(&memory, EXPORT, 3) {
            (0..SLOTS).for_each(|slot| _ = fence.answered_earlier(slot));
            fence.session_ends(4);
            let request = fence.request();
            let _ = fence.begin(Extent::new(0, 8), false, request, 5);
        }
    }
}

/// Flushes at this time, with success.
fn flush(fence: &mut Fence, now_ns: u64) {
    let mark = fence.flush_begins(now_ns).expect("nothing is lost");
    assert_eq!(fence.flush_ends(mark, true), Ok(()));
}

#[test]
fn data_beside_an_unanswered_change_is_kept_after_a_flush_behind_the_settle_time() {
    let memory = memory();
    let mut first = Fence::new(&memory, EXPORT);
    let request = first.request();
    let _ = sent(first.begin(at(8), false, request, 0));
    let mut fence = Fence::adopt(&memory, EXPORT, 5).expect("its own");
    fence.session_ends(5);
    let end = 5 + SETTLE_NS;
    let may_keep = |fence: &Fence| [0, 8, 15, 16].map(|first| fence.may_keep(at(first)));
    let doubted = [true, false, false, true];
    assert_eq!(may_keep(&fence), doubted);
    flush(&mut fence, end - 1);
    assert_eq!(may_keep(&fence), doubted, "it may still be executed");
    let early = fence.flush_begins(end - 1).expect("nothing is lost");
    assert_eq!(fence.fences(end), 0);
    assert_eq!(fence.flush_ends(early, true), Ok(()));
    assert_eq!(may_keep(&fence), doubted, "the flush had begun before");
    let failed = fence.flush_begins(end).expect("nothing is lost");
    assert_eq!(fence.flush_ends(failed, false), Ok(()));
    let cut = fence.flush_begins(end).expect("nothing is lost");
    fence.session_ends(end);
    assert_eq!(fence.flush_ends(cut, true), Ok(()));
    assert_eq!(may_keep(&fence), doubted, "no flush has succeeded");
    let mut next = Fence::adopt(&memory, EXPORT, end).expect("its own");
    assert_eq!(next.fences(end), 0, "it holds no change");
    assert_eq!(may_keep(&next), doubted, "the next process does not keep them either");
    flush(&mut next, end);
    assert_eq!(may_keep(&next), [true; 4]);
    let last = Fence::adopt(&memory, EXPORT, end).expect("its own");
    assert_eq!(may_keep(&last), [true; 4]);
}

#[test]
fn a_request_that_was_answered_on_another_connection_needs_no_flush() {
    let mut fence = fence();
    let request = fence.request();
    let _ = sent(fence.begin(at(0), false, request, 0));
    fence.changes_end(0);
    assert!(!fence.may_keep(at(0)));
    let again = sent(fence.begin(at(0), false, request, 1));
    fence.answered(again);
    assert!(fence.may_keep(at(0)), "the other copy has the same bytes");
    // Without an answer, an entry stays beyond the settle time, and a later copy replaces it.
    let request = fence.request();
    for now_ns in [1, 2, 3].map(|round| round * 2 * SETTLE_NS) {
        let _ = sent(fence.begin(at(8), false, request, now_ns));
        fence.changes_end(now_ns);
        let _ = fence.fences(now_ns + SETTLE_NS);
        assert!(!fence.may_keep(at(8)) && fence.settled.len() == 1);
    }
    let again = sent(fence.begin(at(8), false, request, 8 * SETTLE_NS));
    fence.answered(again);
    assert!(fence.may_keep(at(8)) && fence.settled.is_empty() && fence.sent() == 0);
}

#[test]
fn an_export_without_flush_needs_none() {
    let mut fence = fence();
    fence.needs_no_flush();
    let request = fence.request();
    let _ = sent(fence.begin(at(0), true, request, 0));
    fence.changes_end(0);
    assert!(!fence.may_keep(at(0)));
    let _ = fence.fences(SETTLE_NS);
    assert!(fence.may_keep(at(0)));
}

#[test]
fn a_table_full_of_settled_entries_doubts_the_whole_export_instead() {
    let memory = memory();
    let mut fence = Fence::new(&memory, EXPORT);
    fill(&mut fence, |_| 0);
    let mark = fence.flush_begins(SETTLE_NS).expect("nothing is lost");
    assert!(fence.may_keep(at(1 << 19)));
    let request = fence.request();
    let copy = sent(fence.begin(at(1 << 19), false, request, SETTLE_NS));
    assert!(!fence.may_keep(at(1 << 19)) && fence.settled.len() == 1);
    fence.answered(copy);
    assert_eq!(fence.flush_ends(mark, true), Ok(()));
    assert!(!fence.may_keep(at(0)), "the merged entry needs a new flush");
    assert!(Fence::adopt(&memory, EXPORT, SETTLE_NS).is_some_and(|next| !next.may_keep(at(0))));
    flush(&mut fence, SETTLE_NS);
    assert!(fence.may_keep(at(0)));
}

#[test]
fn nothing_is_kept_after_a_loss_until_a_flush_succeeds() {
    let memory = memory();
    let mut fence = Fence::new(&memory, EXPORT);
    let request = fence.request();
    let copy = sent(fence.begin(at(8), false, request, 0));
    fence.answered(copy);
    assert!(fence.may_keep(at(8)), "the server has it, and a loss would be reported");
    fence.session_ends(1);
    let everywhere =
        |fence: &Fence, may| [0, 8, 1 << 19].map(|first| fence.may_keep(at(first)) == may);
    assert_eq!(everywhere(&fence, false), [true; 3]);
    assert_eq!(fence.flush_begins(1), Err(Lost));
    // A restart of the server would be no second loss.
    fence.session_ends(2);
    assert!(!fence.has_unflushed());
    assert_eq!(everywhere(&fence, false), [true; 3], "a report is no flush");
    let mut next = Fence::adopt(&memory, EXPORT, 2).expect("its own");
    assert_eq!(everywhere(&next, false), [true; 3], "the next process keeps nothing either");
    let request = next.request();
    assert!(matches!(next.begin(at(8), false, request, 2), Begin::Sent(_)), "no change is held");
    flush(&mut next, 2);
    assert_eq!(everywhere(&next, true), [true; 3]);
}

#[test]
fn an_answer_that_comes_after_its_session_is_such_a_loss() {
    let mut fence = fence();
    let request = fence.request();
    let copy = sent(fence.begin(at(8), false, request, 0));
    fence.session_ends(0);
    assert!(fence.may_keep(at(0)) && !fence.may_keep(at(8)));
    fence.answered(copy);
    assert!(!fence.may_keep(at(0)) && !fence.may_keep(at(8)));
    assert_eq!(fence.flush_begins(0), Err(Lost));
    flush(&mut fence, 0);
    assert!(fence.may_keep(at(0)) && fence.may_keep(at(8)));
}

#[test]
fn an_entry_of_the_whole_export_is_complete_before_the_settled_ones_end() {
    let mut fence = fence();
    let (one, two) = (fence.request(), fence.request());
    let settled = sent(fence.begin(at(64), false, one, 0));
    fence.changes_end(0);
    let answered = sent(fence.begin(at(8), false, two, SETTLE_NS));
    fence.answered(answered);
    fence.session_ends(SETTLE_NS);
    // The store of one word has ended the old entry: a kill before it leaves both.
    let old = fence.table.entry(settled.slot()).expect("it is sound");
    assert_eq!((old.state, old.first), (State::Free, 64));
    assert!([0, 8, 64, 1 << 19].iter().all(|&first| !fence.may_keep(at(first))));
    assert_eq!((fence.settled.len(), fence.free.len()), (1, SLOTS - 1));
}
